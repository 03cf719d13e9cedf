//! Integer divisions that fault on x86.
//!
//! `div` and `idiv` fault if the divisor is zero or the quotient does not fit. A GPU returns a result: all
//! ones for a zero divisor (the remainder is then the dividend), and the wrapped quotient for the smallest
//! number divided by -1 (remainder 0). CUDA leaves both undefined, so kernels may divide first and select
//! afterwards.

use libc::{
    REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RAX, REG_RBP, REG_RBX, REG_RCX,
    REG_RDI, REG_RDX, REG_RIP, REG_RSI, REG_RSP,
};

/// Indexes of the registers, by their number in an instruction.
const REGISTERS: [i32; 16] = [
    REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8, REG_R9, REG_R10, REG_R11,
    REG_R12, REG_R13, REG_R14, REG_R15,
];

/// Emulates the division at the instruction pointer and steps over it. Returns false if it is no division.
///
/// # Safety
/// The instruction pointer is that of an instruction that just faulted.
pub(crate) unsafe fn repair(registers: &mut [i64; 23]) -> bool {
    let start = registers[REG_RIP as usize] as *const u8;
    // SAFETY: the instruction was executed, so its bytes are readable, and decoding reads no further than its
    // length.
    let Some(division) = decode(|offset| unsafe { start.add(offset).read() }) else {
        return false;
    };
    let value = |register: i32| registers[register as usize];
    let (low, high) = (value(REG_RAX), value(REG_RDX));
    let (quotient, remainder) = match division.divisor {
        Operand::Register(number) if truncate(value(REGISTERS[number]), division.bytes) != 0 => {
            overflow(division.bytes)
        }
        Operand::Memory if !zero_divisor(registers, &division) => overflow(division.bytes),
        _ => (-1, low),
    };
    let _ = high;
    if division.bytes == 1 {
        // Quotient in AL, remainder in AH.
        let merged = (low & !0xffff) | (quotient & 0xff) | (remainder & 0xff) << 8;
        registers[REG_RAX as usize] = merged;
    } else {
        registers[REG_RAX as usize] = merge(low, quotient, division.bytes);
        registers[REG_RDX as usize] = merge(high, remainder, division.bytes);
    }
    registers[REG_RIP as usize] += division.length as i64;
    true
}

/// Quotient and remainder of the smallest number divided by -1.
fn overflow(bytes: u32) -> (i64, i64) {
    (i64::MIN >> (64 - 8 * bytes), 0)
}

/// Whether the divisor is zero. A divisor in memory is not read, since that would need its address. A
/// dividend that is the sign extension of the smallest number can overflow only by -1, any other can fault
/// only by zero.
fn zero_divisor(registers: &[i64; 23], division: &Division) -> bool {
    let (low, high) = (registers[REG_RAX as usize], registers[REG_RDX as usize]);
    let smallest = truncate(low, division.bytes) == truncate(overflow(division.bytes).0, division.bytes)
        && truncate(high, division.bytes) == truncate(-1, division.bytes);
    !(division.signed && smallest)
}

fn truncate(value: i64, bytes: u32) -> u64 {
    if bytes == 8 {
        value as u64
    } else {
        value as u64 & ((1 << (8 * bytes)) - 1)
    }
}

/// Writing 32 bits clears the upper half, writing 16 keeps the other bits.
fn merge(old: i64, new: i64, bytes: u32) -> i64 {
    match bytes {
        8 => new,
        4 => i64::from(new as u32),
        _ => (old & !0xffff) | (new & 0xffff),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Operand {
    Register(usize),
    Memory,
}

#[derive(Debug, PartialEq, Eq)]
struct Division {
    divisor: Operand,
    signed: bool,
    bytes: u32,
    length: usize,
}

/// Decodes `div` and `idiv` (F6 and F7, /6 and /7) with prefixes and any operand.
fn decode(byte: impl Fn(usize) -> u8) -> Option<Division> {
    let mut at = 0;
    let mut bytes = 4;
    while matches!(byte(at), 0x66 | 0x64 | 0x65 | 0x2e | 0x3e) {
        if byte(at) == 0x66 {
            bytes = 2;
        }
        at += 1;
    }
    let mut extension = 0;
    if byte(at) & 0xf0 == 0x40 {
        if byte(at) & 8 != 0 {
            bytes = 8;
        }
        extension = usize::from(byte(at) & 1) * 8;
        at += 1;
    }
    match byte(at) {
        0xf6 => bytes = 1,
        0xf7 => {}
        _ => return None,
    }
    let operand = byte(at + 1);
    let (mode, kind, low) = (operand >> 6, operand >> 3 & 7, usize::from(operand & 7));
    if kind < 6 {
        return None;
    }
    let signed = kind == 7;
    at += 2;
    if mode == 3 {
        return Some(Division {
            divisor: Operand::Register(low + extension),
            signed,
            bytes,
            length: at,
        });
    }
    let mut displacement = match mode {
        1 => 1,
        2 => 4,
        _ => 0,
    };
    if low == 4 {
        if mode == 0 && byte(at) & 7 == 5 {
            displacement = 4;
        }
        at += 1;
    } else if low == 5 && mode == 0 {
        displacement = 4;
    }
    Some(Division {
        divisor: Operand::Memory,
        signed,
        bytes,
        length: at + displacement,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Option<Division> {
        decode(|offset| bytes[offset])
    }

    #[test]
    fn division_instructions_are_decoded() {
        let register = |number, signed, bytes, length| {
            Some(Division {
                divisor: Operand::Register(number),
                signed,
                bytes,
                length,
            })
        };
        let memory = |signed, bytes, length| {
            Some(Division {
                divisor: Operand::Memory,
                signed,
                bytes,
                length,
            })
        };
        // idiv ecx; div r9; idiv cl; idiv word [rax]
        assert_eq!(decoded(&[0xf7, 0xf9]), register(1, true, 4, 2));
        assert_eq!(decoded(&[0x49, 0xf7, 0xf1]), register(9, false, 8, 3));
        assert_eq!(decoded(&[0xf6, 0xf9]), register(1, true, 1, 2));
        assert_eq!(decoded(&[0x66, 0xf7, 0x38]), memory(true, 2, 3));
        // div dword [rsp+8]; idiv qword [rip+x]; div dword [rax+rcx*4+0x100]; div dword [disp32]
        assert_eq!(decoded(&[0xf7, 0x74, 0x24, 8]), memory(false, 4, 4));
        assert_eq!(decoded(&[0x48, 0xf7, 0x3d, 0, 0, 0, 0]), memory(true, 8, 7));
        assert_eq!(decoded(&[0xf7, 0xb4, 0x88, 0, 1, 0, 0]), memory(false, 4, 7));
        assert_eq!(decoded(&[0xf7, 0x34, 0x25, 0, 0, 0, 0]), memory(false, 4, 7));
        // not ecx; add eax, ecx
        assert_eq!(decoded(&[0xf7, 0xd1]), None);
        assert_eq!(decoded(&[0x01, 0xc8]), None);
    }
}
