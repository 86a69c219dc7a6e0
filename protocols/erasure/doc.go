// Package erasure is the layout of an object that is kept as shards, and the manifest that names them. It
// reads and sends nothing.
//
// An object is cut into stripes. A stripe has k data shards, which are ranges of the object one after the other, and m
// parity shards, computed by a systematic Reed–Solomon code byte by byte. Any k shards of a stripe give the others. The
// shards of a stripe are as long as the first one, but for the data shards at its end, which end with the object and
// are read as if zeros followed. Each shard is an object with its own address, and so is the outboard of the object. A
// shard without bytes has the zero address.
//
// Invariants:
//
//   - A [Manifest] that Decode returns has k and m within their bounds, as many stripes as its size has, and an
//     address for each shard that has bytes. Nothing says that the addresses are those of the object: a
//     reader proves what it reads against the object's own tree, a rebuilt shard against its address.
//   - A manifest has one encoding, at most [MaxManifest] bytes, so the same object and numbers have the same
//     manifest on all nodes.
//   - The length of every shard follows from the manifest. No length is on the wire.
//
// One read of a byte while its shard is lost: [Layout.Locate] says in which stripe, in which data shard and at
// which offset it is. The reader gets the group at that offset of any k other shards, each proved by
// the address of its shard, has a [Code] compute the missing one, and proves that against the object's tree.
package erasure
