// Node makes objects, strings, buffers and maps, writes and parses JSON, and compresses.
"use strict";
const zlib = require("zlib");

function people(count, seed) {
    const list = [];
    for (let i = 0; i < count; i++) {
        seed = (seed * 1103515245 + 12345) % 2147483648;
        list.push({ id: i, name: "person " + seed, tags: ["t" + (seed % 97), "u" + (i % 31)],
                    place: { x: seed % 1000, y: i % 1000 } });
    }
    return list;
}

let sum = 0;
for (let round = 0; round < 12; round++) {
    const list = people(6000, round + 1);
    const text = JSON.stringify(list);
    const again = JSON.parse(text);
    const byTag = new Map();
    for (const one of again) {
        for (const tag of one.tags) {
            if (!byTag.has(tag)) byTag.set(tag, []);
            byTag.get(tag).push(one);
        }
    }
    const buffers = [];
    for (let i = 0; i < 3000; i++) buffers.push(Buffer.alloc(64 + (i * 37) % 9000, i));
    const packed = zlib.deflateSync(Buffer.from(text), { level: 1 });
    sum += byTag.size + zlib.inflateSync(packed).length + Buffer.concat(buffers).length;
}
console.log(sum);
