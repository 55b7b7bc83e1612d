use url::Url;

/// `[notify]`: URLs that are pinged as runs begin and end. They are as good as secrets: whoever has one can ping it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Notify {
    /// A run begins.
    pub start: Option<Url>,
    /// It ended well.
    pub success: Option<Url>,
    /// It ended well, but a limit left work for the next one; unset: as `success`.
    pub stopped: Option<Url>,
    /// Something failed or was refused, or a signal interrupted the run.
    pub failure: Option<Url>,
}

impl std::fmt::Debug for Notify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let set = [&self.start, &self.success, &self.stopped, &self.failure]
            .iter()
            .filter(|url| url.is_some())
            .count();
        write!(f, "Notify({set} URLs)")
    }
}
