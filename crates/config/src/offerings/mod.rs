//! The catalogue of models: which models each provider hosts, at what price and within which limits, as of a date.
//!
//! The facts are data: `data/catalogue.json`, explained in `data/README.md`. An absent fact is unknown, never 0 and never "no".
//! Not for providers' addresses and dialects: see `config::catalogue`.

mod catalogue;
mod change;
mod offering;

pub(crate) use catalogue::undated;
pub use catalogue::{CatalogueError, CataloguedModel, ModelCatalogue};
pub use change::{CatalogueChange, PriceMove};
pub use offering::{InputKind, Offering, OfferingStatus, PriceTier};
