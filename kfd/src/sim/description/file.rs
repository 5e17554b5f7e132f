//! A machine described by a JSON file.
//! [`Machine::from_file`] says what it looks like; each
//! entry starts from a preset and changes what it names.

use std::fmt;
use std::path::Path;

use hsakmt_core::node::GpuId;
use serde::{Deserialize, Deserializer};

use super::{Gpu, MIB, Machine, Range, gpu};

impl Machine {
    /// A machine from a file.
    ///
    /// ```json
    /// {
    ///   "name": "one of each",
    ///   "kfd_version": "1.14",
    ///   "cpu_cores": 2,
    ///   "memory_mib": 8192,
    ///   "gpus": [
    ///     { "preset": "gfx90a", "count": 2 },
    ///     { "preset": "gfx1100", "vram_mib": 1024, "gpu_id": 4711, "svm": true }
    ///   ]
    /// }
    /// ```
    /// Every field but `gpus` may be left out. A GPU starts from its `preset` (`gfx90a`, `gfx942`, `gfx1100`, `gfx801`) and
    /// may change: `count`, `gpu_id`, `vram_mib`, `large_bar`, `svm`, `xgmi`, `device_id`, `gfx_version` ("9.0.10"),
    /// `simds`, and the address ranges `lds`, `scratch`, `gpuvm`, each `["0x1000000", "0x7fffffffffff"]`, limits
    /// inclusive. Numbers may be written as numbers or as hexadecimal strings.
    pub fn from_file(path: &Path) -> Result<Machine, Error> {
        let fail = |message: String| Error { file: path.display().to_string(), message };
        let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        Machine::from_json(&text).map_err(fail)
    }

    /// A machine from the text of a file.
    pub fn from_json(text: &str) -> Result<Machine, String> {
        let file: MachineFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut machine = Machine {
            name: file.name,
            kfd_version: (file.kfd_version.0, file.kfd_version.1),
            cpu_cores: file.cpu_cores,
            memory: file.memory_mib.0.checked_mul(MIB).ok_or("memory_mib: too large")?,
            gpus: Vec::new(),
            shown: None,
        };
        for (position, entry) in file.gpus.iter().enumerate() {
            entry.add_to(&mut machine.gpus).map_err(|message| format!("gpus[{position}].{message}"))?;
        }
        machine.check()?;
        Ok(machine)
    }
}

/// A machine file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {message}")]
pub struct Error {
    file: String,
    message: String,
}

/// A number, or a hexadecimal string.
#[derive(Clone, Copy)]
struct Number(u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Number;
            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a number, or a string such as \"0x1000\"")
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Number, E> {
                Ok(Number(value))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Number, E> {
                let digits = text.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16));
                let value = digits.unwrap_or_else(|| text.parse());
                value.map(Number).map_err(|_| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// "1.14", "9.0.10": numbers with points between.
struct Dotted(u32, u32, u32);

impl<'de> Deserialize<'de> for Dotted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Dotted, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parts: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
        match parts.as_deref() {
            Some(&[major, minor]) => Ok(Dotted(major, minor, 0)),
            Some(&[major, minor, stepping]) => Ok(Dotted(major, minor, stepping)),
            _ => Err(serde::de::Error::custom(format!("{text:?} is not a version such as \"1.14\""))),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineFile {
    #[serde(default)]
    name: String,
    #[serde(default = "default_version")]
    kfd_version: Dotted,
    #[serde(default = "default_cores")]
    cpu_cores: u32,
    #[serde(default = "default_memory")]
    memory_mib: Number,
    gpus: Vec<GpuEntry>,
}

fn default_version() -> Dotted {
    Dotted(1, 14, 0)
}

fn default_cores() -> u32 {
    2
}

fn default_memory() -> Number {
    Number(8192)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GpuEntry {
    preset: String,
    count: Option<u32>,
    gpu_id: Option<u32>,
    vram_mib: Option<Number>,
    large_bar: Option<bool>,
    svm: Option<bool>,
    xgmi: Option<bool>,
    device_id: Option<Number>,
    gfx_version: Option<Dotted>,
    simds: Option<u32>,
    lds: Option<(Number, Number)>,
    scratch: Option<(Number, Number)>,
    gpuvm: Option<(Number, Number)>,
}

impl GpuEntry {
    fn add_to(&self, gpus: &mut Vec<Gpu>) -> Result<(), String> {
        let count = self.count.unwrap_or(1);
        if count > 64 || (count > 1 && self.gpu_id.is_some()) {
            return Err("count: at most 64, and 1 where gpu_id is given".into());
        }
        for _ in 0..count {
            let mut gpu = gpu(&self.preset, gpus.len())
                .ok_or_else(|| format!("preset: {:?} is none of gfx90a, gfx942, gfx1100, gfx801", self.preset))?;
            self.change(&mut gpu)?;
            gpus.push(gpu);
        }
        Ok(())
    }

    fn change(&self, gpu: &mut Gpu) -> Result<(), String> {
        if let Some(mib) = self.vram_mib {
            gpu.vram = mib.0.checked_mul(MIB).ok_or("vram_mib: too large")?;
        }
        if let Some(Dotted(major, minor, stepping)) = self.gfx_version {
            if major > 63 || minor > 99 || stepping > 99 {
                return Err("gfx_version: no GPU has that".into());
            }
            gpu.gfx_target_version = major * 10000 + minor * 100 + stepping;
        }
        if let Some(device) = self.device_id {
            gpu.device_id = u32::try_from(device.0).map_err(|_| "device_id: does not fit 32 bits")?;
        }
        gpu.gpu_id = self.gpu_id.map_or(gpu.gpu_id, GpuId);
        gpu.large_bar = self.large_bar.unwrap_or(gpu.large_bar);
        gpu.svm = self.svm.unwrap_or(gpu.svm);
        gpu.xgmi = self.xgmi.unwrap_or(gpu.xgmi);
        gpu.simds = self.simds.unwrap_or(gpu.simds);
        for (range, given) in [(&mut gpu.lds, self.lds), (&mut gpu.scratch, self.scratch), (&mut gpu.gpuvm, self.gpuvm)]
        {
            if let Some((base, limit)) = given {
                *range = Range { base: base.0, limit: limit.0 };
            }
        }
        Ok(())
    }
}
