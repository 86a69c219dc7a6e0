package segment

import (
	"bytes"
	"io"
)

// The versions of the store's format that a segment can be told to be of.
const (
	Version    = 3
	versionOld = 2 // or 1
)

// VersionOf returns the version of the store's format that the segment f was
// written in: 0 when its header does not say. newer reports a version that this
// program does not know.
func VersionOf(f io.ReaderAt) (version int, newer bool, err error) {
	_, h, ok, head, err := readHeader(f)
	switch {
	case err != nil:
		return 0, false, err
	case ok && h.old:
		return versionOld, false, nil
	case ok:
		return Version, false, nil
	}
	newer = bytes.HasPrefix(head, []byte("allium segment ")) && !bytes.HasPrefix(head, []byte(fileMagic)) && !bytes.HasPrefix(head, []byte(oldFileMagic))
	return 0, newer, nil
}
