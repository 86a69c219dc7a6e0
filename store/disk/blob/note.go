package blob

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"sync"
	"syscall"

	"allium/store/disk/fsys"
	"allium/store/meta"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A note is a file beside the files of a download or an upload. It records how much
// of them is durable, so that the index can be rebuilt without this information.
//
// A note begins with two slots of one disk sector each. The valid slot with the
// higher number counts. A change is written to one slot and synced, and then to the
// other slot without a sync. If a crash interrupts the write, the other slot has the
// previous, synced state. If a byte is damaged, the other slot has the same state, or
// after a power cut the previous one.
const (
	noteSlot  = 512
	noteSlots = 2 * noteSlot

	slotHead = 8 + 8 + 4 // magic, number, length of the content
	slotSum  = noteSlot - 4
	slotMost = slotSum - slotHead // largest content
)

// The kinds of notes: the first bytes of a slot.
const (
	notePart   = "alliumD1"
	noteUpload = "alliumU1"
)

func encodeSlot(kind string, seq uint64, p []byte) []byte {
	b := append(make([]byte, 0, noteSlot), kind...)
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p)))
	b = append(b, p...)[:slotSum]
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, meta.Castagnoli))
}

// decodeSlot is the inverse of encodeSlot. ok is false for any other bytes.
func decodeSlot(kind string, b []byte) (seq uint64, p []byte, ok bool) {
	if len(b) != noteSlot || string(b[:8]) != kind || !meta.Checksummed(b) {
		return 0, nil, false
	}
	n := binary.LittleEndian.Uint32(b[16:])
	if n > slotMost || len(bytes.Trim(b[slotHead+n:slotSum], "\x00")) > 0 {
		return 0, nil, false
	}
	return binary.LittleEndian.Uint64(b[8:]), b[slotHead : slotHead+n], true
}

// readSlots returns the number and the content of the newer valid slot of a note. p
// is nil if neither slot is valid; bad counts the slots that are not.
func readSlots(kind string, f io.ReaderAt, valid func(p []byte) bool) (seq uint64, p []byte, bad int, err error) {
	var head [noteSlots]byte
	if err := readNote(f, head[:], 0); err != nil {
		return 0, nil, 0, err
	}
	for i := range 2 {
		n, q, ok := decodeSlot(kind, head[i*noteSlot:(i+1)*noteSlot])
		switch {
		case !ok || !valid(q):
			bad++
		case p == nil || n > seq:
			seq, p = n, q
		}
	}
	return seq, p, bad, nil
}

// readNote fills p from f. Behind the end of the file, and where the disk cannot read,
// p is zero, which callers treat as damage.
func readNote(f io.ReaderAt, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if n == len(p) || errors.Is(err, io.EOF) {
		return nil
	}
	if errors.Is(err, syscall.EIO) {
		clear(p)
		return nil
	}
	return meta.ReadError(err)
}

// notes are the notes in part/.
type notes struct {
	*dir
	syncing chan struct{} // one token: its holder syncs part/

	mu   sync.Mutex // lock: leaf
	gone []string   // notes whose files are unlinked, perhaps not durably
}

// makeNote writes a new note, or atomically replaces an existing one. body follows
// the slots. The next syncPart makes the note's name durable.
func (n *notes) makeNote(name, kind string, p, body []byte) error {
	note := append(encodeSlot(kind, 0, p), encodeSlot(kind, firstNote, p)...)
	return meta.WriteError("write a note", n.replace(name, func(f vfs.File) error {
		_, err := f.Write(append(note, body...))
		return err
	}))
}

// firstNote is the number of the newer slot of a new note.
const firstNote = 1

// changeNote writes state p to a note, durably. seq is the number of the previous
// state plus one. rest writes what follows the slots.
func (n *notes) changeNote(name, kind string, seq uint64, p []byte, rest func(f vfs.File) error) error {
	f, err := n.fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return meta.WriteError("open a note", err)
	}
	slot := encodeSlot(kind, seq, p)
	err = rest(f)
	if err == nil {
		_, err = f.WriteAt(slot, int64(seq%2)*noteSlot)
	}
	if err == nil {
		err = f.SyncData()
	}
	if err == nil {
		_, err = f.WriteAt(slot, int64((seq+1)%2)*noteSlot)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return meta.WriteError("write a note", err)
}

// syncPart makes the names in part/ durable. Then it removes the notes whose files
// were unlinked before, because those files can no longer reappear.
func (n *notes) syncPart() error {
	n.syncing <- struct{}{} // held for one sync and a few removals
	defer func() { <-n.syncing }()
	n.mu.Lock()
	gone := n.gone
	n.gone = nil
	n.mu.Unlock()
	if err := fsys.SyncDir(n.fs, n.path(fsys.DirPart)); err != nil {
		n.mu.Lock()
		n.gone = append(gone, n.gone...)
		n.mu.Unlock()
		return err
	}
	n.unlinkOrLog(gone...)
	return nil
}

// dropNote removes a note and its files. It first renames the note, durably, to a name
// with goneSuffix, so that the next start finishes an interrupted removal. Without
// that note, it would treat the files as damage.
func (n *notes) dropNote(name, suffix string) error {
	gone := fmt.Sprintf("%s.%s-%d%s", name, n.prefix, n.serial.Add(1), goneSuffix)
	if err := n.fs.Rename(name+suffix, gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return meta.WriteError("remove a note", err)
	}
	if err := n.syncPart(); err != nil {
		return err
	}
	err := errors.Join(n.unlink(name), n.unlink(name+outboardSuffix))
	if err != nil {
		return err // the next start finishes the removal
	}
	n.mu.Lock()
	n.gone = append(n.gone, gone)
	many := len(n.gone) >= maxGone
	n.mu.Unlock()
	if many {
		return n.syncPart()
	}
	return nil
}

// goneSuffix ends the name of a note whose files are being removed. At most maxGone
// such notes remain after their files were unlinked.
const (
	goneSuffix = ".gone"
	maxGone    = 64
)

// recoverGone finishes removing the files of a note. It also removes a newer note of
// the same name, which records nothing yet.
func (n *notes) recoverGone(name, suffix string, x partFiles) {
	n.unlinkOrLog(name, name+outboardSuffix, name+suffix)
	n.gone = append(n.gone, x.gone...) // mu is not needed before Serve
}

// close makes removals of files durable.
func (n *notes) close() error {
	if len(n.gone) == 0 {
		return nil
	}
	return n.syncPart()
}
