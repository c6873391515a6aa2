//! Profiles as protocol buffers, `perftools.profiles.Profile` of google/pprof, with gzip around.

use std::collections::HashMap;
use std::io::Write;
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::facts::Facts;
use super::model::{Frame, Labels, Location, Mapping, Profile, Sample, ValueType, base_name};

/// Tools show comments as they are; what is longer goes into a field of our own.
const COMMENT_BYTES_MAX: usize = 100;

/// The messages. Numbers of strings and of what they refer to are as in the file.
mod message {
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    pub struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub function: Vec<Function>,
        // Not `string`: one bad byte in a name must not cost the whole profile.
        #[prost(bytes = "vec", repeated, tag = "6")]
        pub string_table: Vec<Vec<u8>>,
        #[prost(int64, tag = "9")]
        pub time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub comment: Vec<i64>,
        #[prost(int64, tag = "14")]
        pub default_sample_type: i64,
        // Our own: facts that are too long for a comment.
        #[prost(string, repeated, tag = "1001")]
        pub fact: Vec<String>,
    }

    #[derive(Clone, Copy, PartialEq, Message)]
    pub struct ValueType {
        #[prost(int64, tag = "1")]
        pub name: i64,
        #[prost(int64, tag = "2")]
        pub unit: i64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub label: Vec<Label>,
    }

    #[derive(Clone, Copy, PartialEq, Message)]
    pub struct Label {
        #[prost(int64, tag = "1")]
        pub key: i64,
        #[prost(int64, tag = "2")]
        pub text: i64,
    }

    #[derive(Clone, Copy, PartialEq, Message)]
    pub struct Mapping {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub memory_start: u64,
        #[prost(uint64, tag = "3")]
        pub memory_limit: u64,
        #[prost(uint64, tag = "4")]
        pub file_offset: u64,
        #[prost(int64, tag = "5")]
        pub filename: i64,
        #[prost(int64, tag = "6")]
        pub build_id: i64,
        #[prost(bool, tag = "7")]
        pub has_functions: bool,
        #[prost(bool, tag = "8")]
        pub has_filenames: bool,
        #[prost(bool, tag = "9")]
        pub has_line_numbers: bool,
        #[prost(bool, tag = "10")]
        pub has_inline_frames: bool,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Location {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub address: u64,
        #[prost(message, repeated, tag = "4")]
        pub line: Vec<Line>,
    }

    #[derive(Clone, Copy, PartialEq, Message)]
    pub struct Line {
        #[prost(uint64, tag = "1")]
        pub function_id: u64,
        #[prost(int64, tag = "2")]
        pub line: i64,
    }

    #[derive(Clone, Copy, PartialEq, Message)]
    pub struct Function {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "2")]
        pub name: i64,
        #[prost(int64, tag = "3")]
        pub system_name: i64,
        #[prost(int64, tag = "4")]
        pub filename: i64,
    }
}

/// Reads the bytes of a profile that is no longer compressed.
pub fn decode(bytes: &[u8]) -> Result<Profile> {
    let read = message::Profile::decode(bytes).context("is no pprof profile, or a damaged one")?;
    if read.sample_type.is_empty() {
        bail!("is no pprof profile: it does not say what its values are");
    }
    Reader::new(&read)?.profile()
}

/// A profile while it is read: what numbers in the file refer to.
struct Reader<'a> {
    read: &'a message::Profile,
    strings: Vec<Rc<str>>,
    mappings: HashMap<u64, usize>,
    functions: HashMap<u64, &'a message::Function>,
}

impl Reader<'_> {
    fn new(read: &message::Profile) -> Result<Reader<'_>> {
        let strings: Vec<Rc<str>> =
            read.string_table.iter().map(|text| String::from_utf8_lossy(text).into()).collect();
        if strings.first().is_some_and(|first| !first.is_empty()) {
            bail!("is a damaged pprof profile: its table of strings does not begin with none");
        }
        let mappings = read.mapping.iter().enumerate().map(|(i, mapping)| (mapping.id, i));
        let functions = read.function.iter().map(|function| (function.id, function));
        Ok(Reader { read, strings, mappings: mappings.collect(), functions: functions.collect() })
    }

    fn string(&self, number: i64) -> Result<Rc<str>> {
        match usize::try_from(number).ok().and_then(|number| self.strings.get(number)) {
            Some(string) => Ok(string.clone()),
            None if number == 0 => Ok("".into()),
            None => bail!("is a damaged pprof profile: it has no string {number}"),
        }
    }

    fn value_type(&self, read: message::ValueType) -> Result<ValueType> {
        let text = |number| Ok::<_, anyhow::Error>(self.string(number)?.to_string());
        Ok(ValueType { name: text(read.name)?, unit: text(read.unit)? })
    }

    fn profile(&self) -> Result<Profile> {
        let read = self.read;
        let types: Result<Vec<ValueType>> =
            read.sample_type.iter().map(|&read| self.value_type(read)).collect();
        let mut profile = Profile::new(types?);
        profile.mappings = read.mapping.iter().map(|m| self.mapping(m)).collect::<Result<_>>()?;
        let comments: Vec<Rc<str>> =
            read.comment.iter().map(|&number| self.string(number)).collect::<Result<_>>()?;
        let lines = comments.iter().map(|comment| &**comment);
        profile.facts = Facts::parse(lines.chain(read.fact.iter().map(String::as_str)));
        profile.time_nanos = read.time_nanos;
        profile.duration_nanos = read.duration_nanos;
        profile.period = self.period()?;
        profile.default_type =
            Some(self.string(read.default_sample_type)?.to_string()).filter(|t| !t.is_empty());

        let mut numbers = HashMap::with_capacity(read.location.len());
        for location in &read.location {
            numbers.insert(location.id, profile.locations.len() as u32);
            profile.locations.push(self.location(location, &profile.mappings)?);
        }
        self.samples(&mut profile, &numbers)?;
        Ok(profile)
    }

    /// Only of profiles by bytes, as ours and Go's are: of time it would mean something else.
    fn period(&self) -> Result<Option<i64>> {
        let Some(period_type) = self.read.period_type else { return Ok(None) };
        let is_bytes = &*self.string(period_type.unit)? == "bytes";
        Ok(Some(self.read.period).filter(|&period| is_bytes && period > 0))
    }

    fn mapping(&self, read: &message::Mapping) -> Result<Mapping> {
        Ok(Mapping {
            start: read.memory_start,
            limit: read.memory_limit,
            offset: read.file_offset,
            file: self.string(read.filename)?,
            build_id: self.string(read.build_id)?,
        })
    }

    fn location(&self, read: &message::Location, mappings: &[Mapping]) -> Result<Location> {
        let mapping = self.mappings.get(&read.mapping_id).copied();
        let library: Rc<str> =
            mapping.map_or("", |number| base_name(&mappings[number].file)).into();
        let mut frames = Vec::with_capacity(read.line.len());
        for line in &read.line {
            let Some(function) = self.functions.get(&line.function_id) else { continue };
            let file = self.string(function.filename)?;
            frames.push(Frame {
                function: self.string(function.name)?,
                file: Some(file).filter(|file| !file.is_empty()),
                line: u32::try_from(line.line).ok().filter(|&line| line > 0),
                library: library.clone(),
            });
        }
        Ok(Location { address: read.address, mapping, frames })
    }

    fn samples(&self, profile: &mut Profile, numbers: &HashMap<u64, u32>) -> Result<()> {
        let width = profile.value_types.len();
        for sample in &self.read.sample {
            if sample.value.len() != width {
                bail!(
                    "is a damaged pprof profile: a sample has {} values, not {width}",
                    sample.value.len()
                );
            }
            let mut labels = Labels::default();
            for label in &sample.label {
                let text = self.string(label.text)?;
                match &*self.string(label.key)? {
                    "thread" => labels.thread = profile.name_number(&text),
                    "tag" => labels.tag = profile.name_number(&text),
                    "kind" => labels.kind = profile.name_number(&text),
                    _ => {}
                }
            }
            let mut stack = Vec::with_capacity(sample.location_id.len());
            for id in &sample.location_id {
                let Some(&number) = numbers.get(id) else {
                    bail!("is a damaged pprof profile: it has no location {id}");
                };
                stack.push(number);
            }
            profile.push(stack, sample.value.iter().copied(), labels);
        }
        Ok(())
    }
}

/// A compressed profile with the names that are known by now, so that others need no symbols.
pub fn encode(profile: &Profile) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&Writer::default().message(profile).encode_to_vec())?;
    Ok(encoder.finish()?)
}

/// A profile while it is written: strings and functions that have a number already.
#[derive(Default)]
struct Writer {
    written: message::Profile,
    strings: HashMap<Rc<str>, i64>,
    functions: HashMap<(Rc<str>, Rc<str>), u64>,
}

impl Writer {
    fn string(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.strings.get(text) {
            return number;
        }
        let number = self.written.string_table.len() as i64;
        self.written.string_table.push(text.into());
        self.strings.insert(text.into(), number);
        number
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let file = frame.file.clone().unwrap_or_default();
        let key = (frame.function.clone(), file);
        if let Some(&id) = self.functions.get(&key) {
            return id;
        }
        let id = self.functions.len() as u64 + 1;
        let (name, filename) = (self.string(&key.0), self.string(&key.1));
        self.written.function.push(message::Function { id, name, system_name: name, filename });
        self.functions.insert(key, id);
        id
    }

    fn value_type(&mut self, name: &str, unit: &str) -> message::ValueType {
        message::ValueType { name: self.string(name), unit: self.string(unit) }
    }

    fn message(mut self, profile: &Profile) -> message::Profile {
        self.string("");
        for value_type in &profile.value_types {
            let written = self.value_type(&value_type.name, &value_type.unit);
            self.written.sample_type.push(written);
        }
        for (mapping, id) in profile.mappings.iter().zip(1..) {
            self.mapping(mapping, id);
        }
        for (location, id) in profile.locations.iter().zip(1..) {
            self.location(location, id);
        }
        for sample in profile.samples() {
            self.sample(profile, sample);
        }
        if let Some(period) = profile.period {
            self.written.period_type = Some(self.value_type("space", "bytes"));
            self.written.period = period;
        }
        self.written.time_nanos = profile.time_nanos;
        self.written.duration_nanos = profile.duration_nanos;
        for line in &profile.facts.lines {
            if line.len() <= COMMENT_BYTES_MAX {
                let number = self.string(line);
                self.written.comment.push(number);
            } else {
                self.written.fact.push(line.clone());
            }
        }
        self.written.default_sample_type =
            self.string(profile.default_type.as_deref().unwrap_or(""));
        self.written
    }

    fn mapping(&mut self, mapping: &Mapping, id: u64) {
        let written = message::Mapping {
            id,
            memory_start: mapping.start,
            memory_limit: mapping.limit,
            file_offset: mapping.offset,
            filename: self.string(&mapping.file),
            build_id: self.string(&mapping.build_id),
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        };
        self.written.mapping.push(written);
    }

    fn location(&mut self, location: &Location, id: u64) {
        let line = |(frame, function_id): (&Frame, u64)| message::Line {
            function_id,
            line: frame.line.map_or(0, i64::from),
        };
        let functions: Vec<u64> = location.frames.iter().map(|f| self.function(f)).collect();
        self.written.location.push(message::Location {
            id,
            mapping_id: location.mapping.map_or(0, |number| number as u64 + 1),
            address: location.address,
            line: location.frames.iter().zip(functions).map(line).collect(),
        });
    }

    fn sample(&mut self, profile: &Profile, sample: Sample) {
        let labels = sample.labels;
        let named = [("thread", labels.thread), ("tag", labels.tag), ("kind", labels.kind)];
        let present = named.into_iter().filter(|&(_, number)| number != 0);
        let label = present
            .map(|(key, number)| message::Label {
                key: self.string(key),
                text: self.string(&profile.names[number as usize]),
            })
            .collect();
        self.written.sample.push(message::Sample {
            location_id: sample.stack.iter().map(|&number| u64::from(number) + 1).collect(),
            value: sample.values.to_vec(),
            label,
        });
    }
}
