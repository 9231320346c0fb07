//! TEMPORARY
#![allow(unsafe_code, missing_docs, clippy::all, clippy::pedantic)]
pub mod seat {
    use model::id_set::*;
    pub fn sit_on(cpu: CpuId) -> Result<CpuSet, String> {
        unsafe {
            let mut s: libc::cpu_set_t = std::mem::zeroed();
            if cpu.0 >= 1024 { return Err("no such cpu".into()); }
            libc::CPU_SET(cpu.0 as usize, &mut s);
            if libc::sched_setaffinity(0, size_of_val(&s), &s) != 0 { return Err(format!("cpu {cpu}")); }
            let mut r: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&r), &mut r);
            Ok((0..1024).filter(|i| libc::CPU_ISSET(*i, &r)).map(|i| CpuId(i as u32)).collect())
        }
    }
    pub fn current_cpu() -> CpuId { CpuId(unsafe { libc::sched_getcpu() } as u32) }
}
pub mod memory {
    use model::{id_set::*, placement::MemoryPolicy};
    use std::collections::BTreeMap;
    #[derive(PartialEq)]
    pub enum HugePages { Wanted, Never, System }
    pub struct PlacedMemory(*mut u8, usize);
    unsafe impl Send for PlacedMemory {}
    impl PlacedMemory {
        pub fn new(bytes: usize, _: &MemoryPolicy, h: HugePages) -> Result<Self, String> {
            unsafe {
                let map = libc::mmap(std::ptr::null_mut(), bytes + (2 << 20), 3, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
                let p = (map as usize).next_multiple_of(2 << 20) as *mut u8;
                if h != HugePages::System { libc::madvise(p.cast(), bytes, if h == HugePages::Wanted { 14 } else { 15 }); }
                Ok(Self(p, bytes))
            }
        }
        pub fn as_mut_slice<T>(&mut self) -> &mut [T] { unsafe { std::slice::from_raw_parts_mut(self.0.cast(), self.1 / size_of::<T>()) } }
        pub fn pages_by_node(&self, _: usize) -> Result<BTreeMap<NodeId, u64>, String> { Ok([(NodeId(0), 1)].into()) }
    }
}
