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

	"allium/store/fsys"
	"allium/store/meta"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// What is known of a download or an upload is in a note beside its files, so
// that the index can be made anew without it. A note begins with two slots, a
// sector each; the valid one with the higher number counts. A change is written
// to one slot and synced, then to the other one without a sync: a write that a
// crash cuts leaves a slot that was synced before, and a damaged byte leaves the
// other slot, which says the same or, after a power cut, what was said before.
const (
	noteSlot  = 512
	noteSlots = 2 * noteSlot

	slotHead = 8 + 8 + 4 // magic, number, length of what follows
	slotSum  = noteSlot - 4
	slotMost = slotSum - slotHead
)

// Kinds of notes, as their first bytes.
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

// decodeSlot is the inverse of encodeSlot. It takes nothing else.
func decodeSlot(kind string, b []byte) (seq uint64, p []byte, ok bool) {
	if len(b) != noteSlot || string(b[:8]) != kind || crc32.Checksum(b[:slotSum], meta.Castagnoli) != binary.LittleEndian.Uint32(b[slotSum:]) {
		return 0, nil, false
	}
	n := binary.LittleEndian.Uint32(b[16:])
	if n > slotMost || len(bytes.Trim(b[slotHead+n:slotSum], "\x00")) > 0 {
		return 0, nil, false
	}
	return binary.LittleEndian.Uint64(b[8:]), b[slotHead : slotHead+n], true
}

// readSlots returns what the slots at the head of a note say, nil when neither
// is valid, and how many are not.
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

// readNote fills p, with zeros where the file ends. What the disk cannot read
// is zeros as well: it is damage like any other.
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
	syncing chan struct{} // one token: who holds it syncs part/

	mu   sync.Mutex
	gone []string // notes of which the files are unlinked, perhaps not durably
}

// makeNote writes a note, or replaces the one that is there, whole or not at all.
// Its name is durable with the next syncPart. body follows the slots.
func (n *notes) makeNote(name, kind string, p, body []byte) error {
	note := append(encodeSlot(kind, 0, p), encodeSlot(kind, firstNote, p)...)
	return meta.WriteError("write a note", n.replace(name, func(f vfs.File) error {
		_, err := f.Write(append(note, body...))
		return err
	}))
}

// firstNote is the number of the newer slot of a note that makeNote wrote.
const firstNote = 1

// changeNote writes the next state of a note, durably. rest writes what belongs
// to it behind the slots.
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

// syncPart makes the names in part/ durable. What was set to be forgotten
// before is then gone for good, and so is what said so.
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
	n.tidy(gone...)
	return nil
}

// dropNote removes a note and its files. The note goes first, durably, by a
// name that lets the next start go on: files without a note are damage.
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
		return err // the next start goes on
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

// goneSuffix ends the name of a note whose files are being removed. There are
// maxGone at most of which the files are gone.
const (
	goneSuffix = ".gone"
	maxGone    = 64
)

// settleGone removes the files of a note that was being removed. Another note
// of that name says nothing yet.
func (n *notes) settleGone(name, suffix string, x noted) {
	n.tidy(name, name+outboardSuffix, name+suffix)
	n.gone = append(n.gone, x.gone...) // nobody else is here yet
}

// close makes it durable that files went.
func (n *notes) close() error {
	if len(n.gone) == 0 {
		return nil
	}
	return n.syncPart()
}
