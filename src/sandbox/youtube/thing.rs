//! What the stand-in's world holds. A thing is wholly told by its id, so that nothing needs remembering: an id from
//! elsewhere names nothing.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use crate::sandbox::chance::{Chance, mix, unmix};

/// What kind of thing it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    Video = 1,
    Channel = 2,
    Playlist = 3,
    PlaylistItem = 4,
    Comment = 5,
    Other = 6,
    /// Of a fixed list: its id is a value of that.
    Value = 7,
}

const CLASSES: [Class; 7] = [
    Class::Video,
    Class::Channel,
    Class::Playlist,
    Class::PlaylistItem,
    Class::Comment,
    Class::Other,
    Class::Value,
];

impl Class {
    /// How its ids begin, and how many bytes they hold.
    const fn style(self) -> (&'static str, usize) {
        match self {
            Self::Video => ("", 8),
            Self::Channel => ("UC", 16),
            Self::Playlist => ("PL", 24),
            Self::PlaylistItem => ("UEw", 48),
            Self::Comment => ("Ug", 18),
            Self::Other | Self::Value => ("", 32),
        }
    }
}

/// One thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thing {
    pub class: Class,
    pub place: Place,
    /// What list it is from, 12 bits.
    pub topic: u16,
    /// Which one of that, 12 bits.
    pub number: u16,
}

/// Where a thing belongs: a region, or everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(u16);

impl Place {
    pub const EVERYWHERE: Self = Self(0);

    /// The region of two capital letters; `None` for any other text, and for the codes that are no country's.
    pub fn parse(code: &str) -> Option<Self> {
        let [first, second] = code.as_bytes() else {
            return None;
        };
        let valid = first.is_ascii_uppercase()
            && second.is_ascii_uppercase()
            && !matches!(code, "XX" | "ZZ");
        let number = |letter: u8| u16::from(letter.wrapping_sub(b'A'));
        valid.then(|| Self(number(*first) * 26 + number(*second) + 1))
    }

    /// Its code.
    pub fn code(self) -> Option<String> {
        let number = self.0.checked_sub(1)?;
        let letter = |number: u16| {
            u8::try_from(number)
                .ok()
                .map(|number| char::from(b'A'.saturating_add(number)))
        };
        Some(
            [letter(number / 26)?, letter(number % 26)?]
                .iter()
                .collect(),
        )
    }
}

const CHECK: u32 = 26;
const TWELVE: u64 = 0xfff;

impl Thing {
    /// Its id in the world of this chance.
    pub fn id(self, world: Chance) -> String {
        let (prefix, length) = self.class.style();
        let bits = self.bits(world);
        let words = (0..).map(|part: u64| {
            if part == 0 {
                bits
            } else {
                mix(bits ^ mix(part))
            }
        });
        let bytes: Vec<u8> = words.flat_map(u64::to_be_bytes).take(length).collect();
        format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The thing of this id; `None` where the world has none.
    pub fn find(class: Class, id: &str, world: Chance) -> Option<Self> {
        let encoded = id.strip_prefix(class.style().0)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).ok()?;
        let (bits, _) = bytes.split_first_chunk::<8>()?;
        let thing = Self::from_bits(u64::from_be_bytes(*bits), world)?;
        // Its check bits are right only if it has this very id again.
        (thing.class == class && thing.id(world) == id).then_some(thing)
    }

    /// What is drawn about it.
    pub fn chance(self, world: Chance) -> Chance {
        world.of("thing").nth(self.plain())
    }

    fn plain(self) -> u64 {
        let class = (self.class as u64) << 34;
        class
            | (u64::from(self.place.0) << 24)
            | ((u64::from(self.topic) & TWELVE) << 12)
            | (u64::from(self.number) & TWELVE)
    }

    fn bits(self, world: Chance) -> u64 {
        let plain = self.plain();
        mix(((plain << CHECK) | check(plain, world)) ^ world.bits())
    }

    /// What these bits would name, their check bits aside.
    fn from_bits(bits: u64, world: Chance) -> Option<Self> {
        let plain = (unmix(bits) ^ world.bits()) >> CHECK;
        let part = |shift: u32| u16::try_from((plain >> shift) & TWELVE).unwrap_or_default();
        let class = CLASSES
            .into_iter()
            .find(|class| *class as u64 == plain >> 34)?;
        let place = Place(part(24) & 0x3ff);
        Some(Self {
            class,
            place,
            topic: part(12),
            number: part(0),
        })
    }
}

fn check(plain: u64, world: Chance) -> u64 {
    world.of("check").nth(plain).bits() >> (64 - CHECK)
}
