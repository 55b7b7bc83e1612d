//! Page tokens: opaque to whoever gets them, and good for the list that they came from alone. They hold where to go on,
//! so that another process of the sandbox knows them too.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::chance::Chance;

const OFFSET: u8 = 0x08;
const DIRECTION: u8 = 0x10;
const CHECK: u8 = 0x1d;

/// Which way a token leads. It is part of the token, and all the same to whoever reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Next = 0,
    Previous = 1,
}

/// The token that leads to `offset` in the list that `list` stands for.
pub fn encode(offset: u64, direction: Direction, list: Chance) -> String {
    let mut bytes = vec![OFFSET];
    bytes.extend(varint(offset));
    bytes.extend([DIRECTION, direction as u8, CHECK]);
    bytes.extend(check(offset, list));
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Where a token of this list leads; `None` for any other text.
pub fn decode(token: &str, list: Chance) -> Option<u64> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (first, rest) = bytes.split_first()?;
    let (offset, rest) = read_varint(rest)?;
    let right =
        matches!(rest, [DIRECTION, 0 | 1, CHECK, found @ ..] if *found == check(offset, list));
    (*first == OFFSET && right).then_some(offset)
}

fn check(offset: u64, list: Chance) -> [u8; 4] {
    let [a, b, c, d, ..] = list.of("token").nth(offset).bits().to_be_bytes();
    [a, b, c, d]
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            bytes.push(low & 0x7f);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let last = bytes.iter().take(9).position(|byte| byte & 0x80 == 0)?;
    let (number, rest) = bytes.split_at_checked(last.saturating_add(1))?;
    let number = number
        .iter()
        .rev()
        .fold(0_u64, |sum, byte| (sum << 7) | u64::from(byte & 0x7f));
    Some((number, rest))
}
