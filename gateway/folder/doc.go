// Package folder sends a directory in one answer: as a tar, as a zip, or as a bundle of its objects with their proofs.
//
// Invariants:
//
//   - The bytes of an archive follow from the address of its directory alone: the order is that of the manifests, there
//     are no times and no owners, and nothing is compressed.
//   - The number of entries and their bytes are summed over the manifests and checked before the first byte, each entry
//     as often as it occurs. The denylist, and whether the format can hold each name, are checked then too.
//   - Each 64 KiB of a file is proved before it leaves. A file that is not as long as its directory says ends the
//     answer, which is cut.
//   - Memory does not grow with the bytes, and with the entries of a zip by 4 bytes each.
//
// One request, walked through: GET /b3/b3:…/photos/?format=tar with "Range: bytes=1000-". Package content finds the
// directory and calls [Handlers.Serve]. It writes the archive once into an empty window, which opens no file and tells
// the length. It evaluates the conditions and the range, and writes the archive again into a window from byte 1,000 on.
// The bytes before the window are counted and not read.
package folder
