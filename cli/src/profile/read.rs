//! Opening a profile of whatever kind. Every complaint names the file and what is wrong with it.

use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use flate2::bufread::GzDecoder;

use super::{Profile, collapsed, legacy, pprof};
use crate::input;
use crate::output::printable;

const GZIP: [u8; 2] = [0x1f, 0x8b];
/// What no profile is larger than; a file that claims more is made to harm.
const BYTES_MAX: u64 = 2 << 30;
/// What the values of one kind come to in no program: below it their sums, and the differences of
/// two, are numbers that can be told.
const SUM_MAX_LOG: u32 = 61;

pub fn read(path: &Path) -> Result<Profile> {
    let name = || input::name_of(path);
    if path.is_dir() && !input::is_standard(path) {
        bail!("{}: is a directory, not a profile", name());
    }
    let bytes = input::open(path).and_then(|file| limited(file, BYTES_MAX));
    let bytes = bytes.with_context(|| format!("{}: cannot be read", name()))?;
    // One sentence: the file, what is wrong, and the reader's own words about it.
    parse(&bytes).map_err(|error| anyhow::anyhow!("{}: {error:#}", name()))
}

/// What comes from a pipe or a device may have no end.
fn limited(input: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("no profile has more than {} MiB", most >> 20)));
    }
    Ok(bytes)
}

pub fn parse(bytes: &[u8]) -> Result<Profile> {
    if bytes.is_empty() {
        bail!("is empty");
    }
    let profile = match bytes.starts_with(&GZIP) {
        true => parse_plain(&unzipped(bytes, BYTES_MAX)?)?,
        false => parse_plain(bytes)?,
    };
    check_sums(&profile)?;
    Ok(profile)
}

fn check_sums(profile: &Profile) -> Result<()> {
    for (index, value_type) in profile.value_types.iter().enumerate() {
        let sizes = profile.samples().map(|sample| sample.values[index].unsigned_abs());
        if sizes.map(u128::from).sum::<u128>() >= 1 << SUM_MAX_LOG {
            bail!(
                "is damaged: its values of {} come to 2^{SUM_MAX_LOG}",
                printable(&value_type.name)
            );
        }
    }
    Ok(())
}

/// All that was packed, one after another; zeros may follow, as gzip has it.
fn unzipped(bytes: &[u8], most: u64) -> Result<Vec<u8>> {
    let mut plain = Vec::with_capacity(bytes.len() * 4);
    let mut rest = bytes;
    while rest.starts_with(&GZIP) {
        let mut decoder = GzDecoder::new(rest);
        let mut limited = decoder.by_ref().take(most + 1 - plain.len() as u64);
        limited.read_to_end(&mut plain).context("is damaged: gzip cannot unpack it")?;
        if plain.len() as u64 > most {
            bail!("is no profile: it unpacks to more than {} MiB", most >> 20);
        }
        rest = decoder.into_inner();
    }
    if rest.iter().any(|&byte| byte != 0) {
        bail!("is damaged: its last {} bytes are not gzip's, and belong to no profile", rest.len());
    }
    Ok(plain)
}

fn parse_plain(bytes: &[u8]) -> Result<Profile> {
    if legacy::is_legacy(bytes) {
        // Paths of the mappings may be in any encoding.
        return legacy::parse(&String::from_utf8_lossy(bytes));
    }
    let text = std::str::from_utf8(bytes).ok();
    let error = match pprof::decode(bytes) {
        Ok(profile) => return Ok(profile),
        Err(error) => error,
    };
    match text {
        None => Err(error),
        Some(text) if collapsed::is_comparison(text) => bail!(
            "is no profile: its lines have two numbers each, as diff --collapsed writes them; \
             diff shows the two profiles that it is made from"
        ),
        Some(text) => collapsed::parse(text).context(
            "is no profile: neither pprof's protocol buffer, nor a heap profile as text, nor \
             collapsed stacks",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::profile::sample;

    fn zipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn message(bytes: &[u8]) -> String {
        format!("{:#}", parse(bytes).err().expect("this is no profile"))
    }

    #[test]
    fn every_form_is_recognised_packed_or_not() {
        for text in ["main;f 7\n", "heap profile: 1: 7 [1: 7] @ heapprofile\n1: 7 [1: 7] @ 0x1\n"] {
            assert_eq!(parse(text.as_bytes()).unwrap().sample_count(), 1);
            assert_eq!(parse(&zipped(text.as_bytes())).unwrap().sample_count(), 1);
        }
        let packed = pprof::encode(&sample::service()).unwrap();
        let profile = parse(&packed).unwrap();
        assert_eq!(profile.sample_count(), sample::service().sample_count());
        let plain = unzipped(&packed, BYTES_MAX).unwrap();
        assert_eq!(parse(&plain).unwrap().value_types, profile.value_types);
    }

    #[test]
    fn names_of_files_may_be_in_any_encoding() {
        let text = b"heap profile: 1: 7 [1: 7] @ heapprofile\n1: 7 [1: 7] @ 0x11\n\n\
                     MAPPED_LIBRARIES:\n10-20 r-xp 00000000 08:01 7 /caf\xe9\n";
        let profile = parse(text).unwrap();
        assert_eq!(&*profile.mappings[0].file, "/caf\u{fffd}");
    }

    #[test]
    fn what_is_no_profile_is_refused_in_plain_words() {
        assert_eq!(message(b""), "is empty");
        assert!(message(b"hello there\n").starts_with("is no profile: neither"));
        assert!(message(&zipped(b"hello")).starts_with("is no profile"));
        assert!(message(b"main;f 12 34\nmain 0 5\n").contains("as diff --collapsed writes them"));
        assert!(message(b"\xff\xfe\x00\x01").starts_with("is no pprof profile"));
        let packed = pprof::encode(&sample::service()).unwrap();
        assert!(message(&packed[..packed.len() / 2]).starts_with("is damaged: gzip"));
        let followed = message(&[&packed[..], b"junk"].concat());
        assert!(followed.starts_with("is damaged: its last 4 bytes are not gzip's"), "{followed}");
        assert!(parse(&[&packed[..], &[0; 512]].concat()).is_ok());
        let plain = unzipped(&packed, BYTES_MAX).unwrap();
        assert!(message(&plain[..plain.len() - 3]).contains("pprof profile"));
        assert!(unzipped(&zipped(&[0; 5000]), 4999).is_err());
        assert!(unzipped(&zipped(&[0; 5000]), 5000).is_ok());
    }

    #[test]
    fn what_no_program_can_have_is_refused() {
        let most = (1_i64 << SUM_MAX_LOG) - 1;
        for fits in [format!("f {most}\n"), format!("f {}\ng {}\n", most / 2, -most / 2)] {
            assert!(parse(fits.as_bytes()).is_ok(), "{fits}");
        }
        for more in [format!("f {most}\ng -1\n"), format!("f {}\n", i64::MIN)] {
            assert_eq!(message(more.as_bytes()), "is damaged: its values of space come to 2^61");
        }
        let old = |objects: i64| {
            format!("heap profile: 1: 7 [1: 7] @ heapprofile\n1: 7 [{objects}: {most}] @ 0x1\n")
        };
        assert!(parse(old(1).as_bytes()).is_ok());
        assert!(message(old(i64::MAX).as_bytes()).contains("values of alloc_objects come to"));
    }

    #[test]
    fn what_has_no_end_is_not_read_for_ever() {
        let error = limited(File::open("/dev/zero").unwrap(), 4 << 20).unwrap_err();
        assert_eq!(error.to_string(), "no profile has more than 4 MiB");
        assert_eq!(limited(File::open("/dev/null").unwrap(), 0).unwrap(), b"");
    }

    #[test]
    fn a_damaged_byte_never_panics() {
        let packed = pprof::encode(&sample::service()).unwrap();
        let plain = unzipped(&packed, BYTES_MAX).unwrap();
        for at in 0..plain.len() {
            for value in [0, 0x7f, 0xff, plain[at] ^ 1] {
                let mut damaged = plain.clone();
                damaged[at] = value;
                let _ = parse_plain(&damaged);
            }
        }
    }
}
