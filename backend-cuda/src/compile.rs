//! Kernels for the device at hand: embedded, from the cache, or compiled now.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute_enum as Attribute;
use cudarc::driver::{CudaFunction, CudaModule};
use cudarc::nvrtc::{Ptx, result, sys};
use dikast_core::backend::Planted;
use dikast_core::{Error, Result};

use crate::device::{Device, Target};
use crate::probe;
use crate::sources::{self, EMBEDDED};

/// Driver that loads images embedded by the toolkit of this project's builds.
const EMBEDDED_NEEDS_DRIVER: i32 = 13_000;

/// The kernels loaded so far.
#[derive(Debug)]
pub(crate) struct Kernels {
    device: Arc<Device>,
    cache: Option<PathBuf>,
    /// Whether embedded images may be taken.
    embedded: bool,
    planted: Option<Planted>,
    modules: RefCell<HashMap<&'static str, Arc<CudaModule>>>,
    /// Functions with the dynamic shared memory that they were allowed.
    functions: RefCell<HashMap<&'static str, (CudaFunction, usize)>>,
}

impl Kernels {
    /// `cache` is the folder for compiled kernels; without one they are compiled in every process.
    pub(crate) fn new(device: Arc<Device>, cache: Option<PathBuf>, embedded: bool) -> Self {
        Self {
            device,
            cache,
            embedded,
            planted: None,
            modules: RefCell::default(),
            functions: RefCell::default(),
        }
    }

    /// The same with a fault in one of them.
    pub(crate) fn with(self, planted: Planted) -> Self {
        Self { planted: Some(planted), embedded: false, ..self }
    }

    fn embedded(&self, kernel: &str) -> Option<Ptx> {
        if self.embedded { embedded(kernel, &self.device) } else { None }
    }

    /// Entry point `name` of a kernel file, allowed to have `shared` bytes of dynamic shared memory.
    pub(crate) fn function(
        &self,
        kernel: &'static str,
        name: &'static str,
        shared: usize,
    ) -> Result<CudaFunction> {
        let mut functions = self.functions.borrow_mut();
        if let Some((function, allowed)) = functions.get(name)
            && *allowed >= shared
        {
            return Ok(function.clone());
        }
        let function = self
            .module(kernel)?
            .load_function(name)
            .map_err(|e| self.device.fault(&format!("finding the kernel {name}"), e))?;
        function
            .set_attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared as i32)
            .map_err(|e| self.device.fault(&format!("giving {name} {shared} bytes of shared memory"), e))?;
        // The same division of on-chip memory for all kernels: a multiprocessor that must change it lets its blocks run
        // out first, and the next kernel cannot start early.
        function
            .set_attribute(Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100)
            .map_err(|e| self.device.fault(&format!("dividing on-chip memory for {name}"), e))?;
        functions.insert(name, (function.clone(), shared));
        Ok(function)
    }

    /// Whether there are kernels for this device, or something to compile them with.
    pub(crate) fn check(&self) -> Result<()> {
        if self.embedded("tile_rows").is_some() || probe::compiler().is_some() {
            return Ok(());
        }
        Err(no_kernels(&self.device.name))
    }

    fn module(&self, kernel: &'static str) -> Result<Arc<CudaModule>> {
        if let Some(module) = self.modules.borrow().get(kernel) {
            return Ok(Arc::clone(module));
        }
        let image = match self.embedded(kernel) {
            Some(image) => image,
            None => self.compiled(kernel)?,
        };
        let module = self
            .device
            .context
            .load_module(image)
            .map_err(|e| self.device.fault(&format!("loading the kernel {kernel}"), e))?;
        self.modules.borrow_mut().insert(kernel, Arc::clone(&module));
        Ok(module)
    }

    fn compiled(&self, kernel: &str) -> Result<Ptx> {
        let compiler = probe::compiler().ok_or_else(|| no_kernels(&self.device.name))?;
        let source = Planted::in_source(self.planted.as_ref(), kernel, sources::assembled(kernel)?);
        let options =
            vec![format!("--gpu-architecture={}", self.device.target.name()), "--std=c++17".to_owned()];
        let path = self.cache.as_ref().map(|folder| {
            folder.join(format!("{kernel}-{}.cubin", sources::key(&source, &options, compiler)))
        });
        if let Some(path) = &path
            && let Ok(image) = std::fs::read(path)
        {
            return Ok(Ptx::from_binary(image));
        }
        let image = compile(&self.device, kernel, &source, &options)?;
        // The cache saves time; a failure to write it is no failure.
        if let Some(path) = &path {
            let _ = store(path, &image);
        }
        Ok(Ptx::from_binary(image))
    }
}

/// The folder for compiled kernels that suits the system.
pub(crate) fn default_cache() -> Option<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(base) if !base.is_empty() => PathBuf::from(base),
        _ => PathBuf::from(std::env::var_os("HOME").filter(|h| !h.is_empty())?).join(".cache"),
    };
    Some(base.join("dikast").join("kernels"))
}

fn embedded(kernel: &str, device: &Device) -> Option<Ptx> {
    if device.driver < EMBEDDED_NEEDS_DRIVER {
        return None;
    }
    let find =
        |target: &str| EMBEDDED.iter().find(|e| e.name == kernel && e.target == target).map(|e| e.image);
    if let Some(image) = find(&device.target.name()) {
        return Some(Ptx::from_binary(image.to_vec()));
    }
    // Newer chips take the PTX, which the driver compiles.
    match device.target {
        Target::Portable(capability) if capability > 89 => {
            find("compute_89").and_then(|text| std::str::from_utf8(text).ok()).map(Ptx::from_src)
        }
        _ => None,
    }
}

fn no_kernels(device: &str) -> Error {
    let need = "the CUDA run-time compiler (libnvrtc) or a build of this program with embedded kernels for this chip";
    Error::Unsupported { device: device.to_owned(), need: need.to_owned() }
}

/// Writes a file so that readers see all of it or nothing.
fn store(path: &Path, image: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(image)?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

fn compile(device: &Device, kernel: &str, source: &str, options: &[String]) -> Result<Vec<u8>> {
    let fault = |what: &str| Error::Internal(format!("compiling the kernel {kernel}: {what}"));
    let text = CString::new(source).map_err(|_| fault("the source holds a zero byte"))?;
    let program = result::create_program(&text, None).map_err(|e| fault(&format!("{e:?}")))?;
    // SAFETY: the program is live until the call to destroy_program below; `text` outlives it.
    let image = unsafe {
        result::compile_program(program, options)
            .map_err(|e| {
                let log = result::get_program_log(program).unwrap_or_default();
                let log: Vec<u8> =
                    log.into_iter().map(|c| c.cast_unsigned()).take_while(|&c| c != 0).collect();
                let log = String::from_utf8_lossy(&log).into_owned();
                // A chip or compiler too old for an instruction is not this program's fault.
                match device.target {
                    Target::Portable(_) => device.lacks(format!("kernel {kernel}: {e:?}: {log}")),
                    Target::Hopper => fault(&format!("{e:?}: {log}")),
                }
            })
            .and_then(|()| image_of(program).map_err(|e| fault(&format!("{e:?}"))))
    };
    // SAFETY: made by create_program, destroyed once.
    let _ = unsafe { result::destroy_program(program) };
    image
}

/// # Safety
/// `program` must be live and compiled.
unsafe fn image_of(program: sys::nvrtcProgram) -> Result<Vec<u8>, result::NvrtcError> {
    let mut size = 0;
    // SAFETY: the caller's promise; `size` is live.
    unsafe { sys::nvrtcGetCUBINSize(program, &raw mut size).result()? };
    let mut image = vec![0u8; size];
    // SAFETY: the caller's promise; the buffer has the size the compiler asked for.
    unsafe { sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()).result()? };
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_files_are_whole_and_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a").join("k.cubin");
        store(&path, b"one").expect("stored");
        store(&path, b"two").expect("stored again");
        assert_eq!(std::fs::read(&path).expect("there"), b"two");
        assert_eq!(std::fs::read_dir(path.parent().expect("a parent")).expect("readable").count(), 1);
    }
}
