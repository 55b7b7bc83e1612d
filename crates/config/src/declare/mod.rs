//! The declaration of configuration keys. `keys!` declares the keys of one table, each once: the declaration reads the
//! table, and the JSON schema and the manual are generated from it.
//!
//! A key is declared as `name: RustType = PRESENCE`, with its documentation as a doc comment. The presence says whether the
//! key is required, and holds its [`Type`], its default and an example, both as TOML with `'` for quotes.

mod compose;
mod presence;
mod shape;
mod types;

pub use compose::{
    AndThen, ExactlyOne, Kind, Later, ListOf, Named, OneOrMore, Place, Table, Tagged, Words, table,
};
pub use presence::{Flat, FlatOptional, Optional, Or, OwnName, Presence, Required};
pub use shape::{Key, Need, Part, Shape, object};
pub use types::*;

use super::item::Item;

/// How one value is read, and how the schema and the manual describe it.
pub trait Type {
    /// What a valid value becomes.
    type Value;

    /// Returns the value, or reports what is wrong with it and returns `None`.
    fn read(&self, item: Item<'_>) -> Option<Self::Value>;

    fn shape(&self) -> Shape;
}

/// A type whose reader is a plain function.
pub struct Leaf<T> {
    pub read: fn(Item<'_>) -> Option<T>,
    pub shape: fn() -> Shape,
}

impl<T> Type for Leaf<T> {
    type Value = T;

    fn read(&self, item: Item<'_>) -> Option<T> {
        (self.read)(item)
    }

    fn shape(&self) -> Shape {
        (self.shape)()
    }
}

/// The keys of a table, implemented by `keys!`.
pub trait Keys: Sized {
    fn keys() -> Vec<Key>;

    /// The names that a file may write.
    fn names() -> Vec<&'static str>;

    /// Reads every key, so that all mistakes are reported at once; `None` if any is wrong.
    fn read(section: &Item<'_>) -> Option<Self>;
}

/// Declares the keys of a table as a struct. `partial struct` wraps each field in an `Option` that is `None` where the key
/// is wrong, for a table whose other keys are still to be checked then.
macro_rules! keys {
    ($(#[$attribute:meta])* $visibility:vis struct $table:ident { $($body:tt)* }) => {
        $crate::declare::keys! { @body [$(#[$attribute])*] [$visibility] $table { $($body)* } }
    };
    ($(#[$attribute:meta])* partial struct $table:ident {
        $($(#[doc = $doc:literal])+ $field:ident $(as $key:literal)?: $type:ty = $presence:expr),* $(,)?
    }) => {
        $(#[$attribute])*
        pub struct $table { $($(#[doc = $doc])+ pub $field: Option<$type>),* }

        impl $crate::declare::Keys for $table {
            $crate::declare::keys! { @names $($(#[doc = $doc])+ $field $(as $key)? = $presence),* }

            fn read(section: &$crate::item::Item<'_>) -> Option<Self> {
                Some(Self {
                    $($field: $crate::declare::Presence::read(&$presence, section, $crate::declare::keys!(@name $field $($key)?))),*
                })
            }
        }
    };
    (@body [$(#[$attribute:meta])*] [$visibility:vis] $table:ident {
        $($(#[doc = $doc:literal])+ $field:ident $(as $key:literal)?: $type:ty = $presence:expr),* $(,)?
    }) => {
        $(#[$attribute])*
        $visibility struct $table { $($(#[doc = $doc])+ pub $field: $type),* }

        impl $crate::declare::Keys for $table {
            $crate::declare::keys! { @names $($(#[doc = $doc])+ $field $(as $key)? = $presence),* }

            fn read(section: &$crate::item::Item<'_>) -> Option<Self> {
                $(let $field = $crate::declare::Presence::read(&$presence, section, $crate::declare::keys!(@name $field $($key)?));)*
                Some(Self { $($field: $field?),* })
            }
        }
    };
    (@names $($(#[doc = $doc:literal])+ $field:ident $(as $key:literal)? = $presence:expr),*) => {
        fn keys() -> Vec<$crate::declare::Key> {
            let keys: &[Vec<_>] = &[$($crate::declare::Presence::keys(
                &$presence,
                $crate::declare::keys!(@name $field $($key)?),
                concat!($($doc),+),
            )),*];
            keys.concat()
        }

        fn names() -> Vec<&'static str> {
            let names: &[Vec<_>] = &[$($crate::declare::Presence::names(
                &$presence,
                $crate::declare::keys!(@name $field $($key)?),
            )),*];
            names.concat()
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $key:literal) => { $key };
}

pub(crate) use keys;
