//! Questions over real files.
