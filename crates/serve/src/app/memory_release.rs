//! Gives the memory of large requests back to the system once they are over.
//!
//! The allocator returns pages a second after they were freed, but checks for them only when a large block is freed.
//! After a burst of large bodies a quiet gateway frees no such block, and would keep hundreds of megabytes.

use std::time::Duration;

use photofinish_base::shutdown::Shutdown;

const EVERY: Duration = Duration::from_secs(5);
/// In bytes. The allocator gives a request of this size a separate block. Nothing is written to it, so it uses no
/// memory.
const BLOCK: usize = 16 << 20;

pub(super) async fn tidy(shutdown: Shutdown) {
    let mut draining = std::pin::pin!(shutdown.draining());
    while tokio::time::timeout(EVERY, &mut draining).await.is_err() {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(BLOCK)));
    }
}
