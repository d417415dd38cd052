#!/usr/bin/env python3
"""Looks in SASS (cuobjdump --dump-sass) for warpgroup products whose first operand, in registers, may be something else.

A register that instructions of different kinds may have written last was lent out between them: ptxas does so with an operand kept
from one step of a loop to the next, and then reads the other's value in the second step. Exits with 1 where it finds one.

  kernels/first_operands.py FILE...
"""
import re
import sys

LINE = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(?:@(!?U?P\d+|!?U?PT) )?([A-Z][\w.]*)\s*(.*?) ?;")


def written(opcode, operands):
    """General registers that an instruction writes."""
    if opcode.startswith(("ST", "RED", "BRA", "BAR", "EXIT", "LDGSTS", "ATOMS", "CCTL", "UTMA")):
        return []
    first = re.match(r"(?:U?PT?\d*, )*R(\d+)\b", operands)
    if not first:
        return []
    start, count = int(first[1]), 1
    if "GMMA" in opcode:
        shape = re.search(r"\.64x(\d+)x", opcode)
        count = int(shape[1]) // 2
    elif opcode.startswith("LDSM"):
        matrices = re.search(r"\.M(?:T)?88\.([24])|\.([24])$", opcode)
        count = int(matrices[1] or matrices[2]) if matrices else 1
    elif opcode.startswith(("HMMA", "IMMA", "QMMA")) or ".128" in opcode:
        count = 4
    elif ".64" in opcode or ".WIDE" in opcode:
        count = 2
    return range(start, start + count)


def functions(text):
    name, code = None, []
    for line in text.splitlines():
        if "Function :" in line:
            if code:
                yield name, code
            name, code = line.split(":")[1].strip(), []
        elif found := LINE.match(line):
            code.append((int(found[1], 16), found[2], found[3], found[4]))
    if code:
        yield name, code


def lent_out(code):
    at = {address: i for i, (address, _, _, _) in enumerate(code)}
    before = [[] for _ in code]
    for i, (_, predicate, opcode, operands) in enumerate(code):
        ends = opcode in ("EXIT", "RET", "KILL") and not predicate
        if opcode.startswith("BRA"):
            target = re.search(r"0x([0-9a-f]+)\s*$", operands)
            if target and int(target[1], 16) in at:
                before[at[int(target[1], 16)]].append(i)
            # `@P BRA !Q, to`: two conditions.
            ends = not predicate and not re.match(r"!?U?P\d", operands)
        if not ends and i + 1 < len(code):
            before[i + 1].append(i)
    writes = [set(written(opcode, operands)) for _, _, opcode, operands in code]
    for i, (address, _, opcode, operands) in enumerate(code):
        operand = re.match(r"R\d+, R(\d+), gdesc", operands) if "GMMA" in opcode else None
        if not operand:
            continue
        for register in range(int(operand[1]), int(operand[1]) + 4):
            last, seen, open_ends = set(), set(), list(before[i])
            while open_ends:
                j = open_ends.pop()
                if j in seen:
                    continue
                seen.add(j)
                if register in writes[j]:
                    last.add(j)
                    if not code[j][1]:
                        continue
                open_ends += before[j]
            if len({code[j][2] for j in last}) != 1:
                yield address, opcode, register, [f"{code[j][0]:#x} {code[j][2]}" for j in sorted(last)]


def main():
    bad = False
    for path in sys.argv[1:]:
        with open(path) as file:
            for name, code in functions(file.read()):
                for address, opcode, register, last in lent_out(code):
                    bad = True
                    print(f"{name}: {opcode} at {address:#x} reads R{register}, last written by {last or 'nothing'}")
    sys.exit(bad)


main()
