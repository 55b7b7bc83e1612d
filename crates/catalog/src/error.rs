use thiserror::Error;

/// Why a catalog operation failed. Nothing of the operation was written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CatalogError {
    /// Another process holds the catalog, or it cannot be reached: the same operation can succeed later. A run repeats the
    /// landing of a paid page for a while; every other caller reports the error.
    #[error("{0}")]
    Unavailable(String),
    /// The operation fails again until somebody acts: a full disk, a damaged file, a pass that does not exist. The run
    /// stops sending requests, since it could not store what they return.
    #[error("{0}")]
    Failed(String),
}

impl CatalogError {
    /// Whether the same operation can succeed later without anybody acting.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Failed(_) => false,
        }
    }
}
