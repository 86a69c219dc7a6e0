package folder

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"allium/gateway/content"
	"allium/gateway/exchange"
	"allium/internal/guard"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// The bounds of reading manifests ahead.
const (
	readAhead    = 16      // manifests that are fetched at once
	maxReadAhead = 4 << 10 // manifests that wait to be fetched; others are fetched when they are needed
)

// maxHeld bounds the bytes of manifests that one answer holds: an index and a leaf of the largest directory, and as
// much for the directories around it. A tree that needs more is refused with body_cap.
const maxHeld = 4 << 20

// source opens the objects of one directory; *content.Folder implements it.
type source interface {
	Context() context.Context
	Open(root b3.Root) (content.Content, bool, error)
	Memory(root b3.Root) []byte
	Acquire() (leave func(), err error)
	Fetch(ctx context.Context, root b3.Root) (content.Content, error)
	Allowed(below string, root b3.Root) error
	Arrives()
}

// tree walks a directory.
type tree struct {
	source
	root b3.Root
	most Config

	entries, bytes int64 // of the walk that goes on; bytes of files
}

// walk calls fn for each entry below the directory, a directory before what is in it. It returns body_cap as soon as
// there are more entries or bytes than are allowed, and denied for an entry that the denylist names.
func (t *tree) walk(fn func(path string, e *manifest.Entry) error) error {
	return t.walkNodes(t.node, fn)
}

// walkNodes is walk with the manifests that get returns.
func (t *tree) walkNodes(get manifest.Getter, fn func(path string, e *manifest.Entry) error) error {
	t.entries, t.bytes = 0, 0
	return manifest.WalkWithin(t.Context(), get, t.root, maxHeld, func(path string, e manifest.Entry) error {
		if t.entries++; t.entries > t.most.MaxEntries {
			return status.Errorf(status.BodyCap, "cannot send the directory in one answer: it has more than %d "+
				"entries. Ask for a directory in it, or for its files (gateway.archive_entries)", t.most.MaxEntries)
		}
		if e.Kind == manifest.File {
			if e.Size > int64(t.most.MaxBytes)-t.bytes {
				return status.Errorf(status.BodyCap, "cannot send the directory in one answer: its files have more "+
					"than %s. Ask for a directory in it, or for its files (gateway.archive_bytes)", t.most.MaxBytes)
			}
			t.bytes += e.Size
			if (e.Size == 0) != (e.Root == empty) { // an empty file is not opened
				return falseSize(path, &e)
			}
		}
		if err := t.Allowed(path, e.Root); err != nil {
			return err
		}
		return fn(path, &e)
	})
}

// node returns a manifest. When one has to be fetched, it fetches those below it too, several at once.
func (t *tree) node(_ context.Context, root b3.Root) ([]byte, error) {
	if p := t.Memory(root); p != nil {
		return p, nil
	}
	c, fetched, err := t.Open(root)
	if err != nil {
		return nil, err
	}
	p, err := whole(t.Context(), c)
	if err == nil {
		t.Arrives()
		if fetched {
			t.fetchBelow(p)
		}
	}
	return p, err
}

// whole returns the bytes of a manifest, and closes c.
func whole(ctx context.Context, c content.Content) ([]byte, error) {
	defer c.Close()
	if c.Size() > manifest.MaxNode {
		return nil, manifest.ErrNotManifest
	}
	var p bytes.Buffer
	p.Grow(int(c.Size()))
	err := c.Copy(ctx, &p, 0, c.Size())
	return p.Bytes(), err
}

// fetchBelow fetches the manifests below the manifest p into the store, as far as there is a permit. An error shows
// when the manifest is needed.
func (t *tree) fetchBelow(p []byte) {
	var seen manifest.Seen
	waiting := below(p, &seen, nil)
	if len(waiting) == 0 {
		return
	}
	leave, err := t.Acquire()
	if err != nil {
		return
	}
	defer leave()
	ctx := t.Context()
	for left := t.most.MaxEntries; len(waiting) > 0 && left > 0 && ctx.Err() == nil; {
		n := min(len(waiting), readAhead)
		batch := waiting[len(waiting)-n:]
		waiting, left = waiting[:len(waiting)-n], left-int64(n)
		nodes := t.fetchAll(ctx, batch)
		t.Arrives()
		for i := n - 1; i >= 0; i-- {
			waiting = below(nodes[i], &seen, waiting)
		}
	}
}

// fetchAll fetches manifests at once. A manifest that cannot be fetched is nil.
func (t *tree) fetchAll(ctx context.Context, roots []b3.Root) [readAhead][]byte {
	var nodes [readAhead][]byte
	var wg sync.WaitGroup
	for i, root := range roots {
		wg.Go(func() {
			_ = guard.Run(func() error {
				c, err := t.Fetch(ctx, root)
				if err == nil {
					nodes[i], err = whole(ctx, c)
				}
				return err
			})
		})
	}
	wg.Wait()
	return nodes
}

// below appends the new manifests that the manifest p refers to, in reverse order, because the last of waiting is read
// next. It stops at maxReadAhead. It adds nothing if p is not a manifest.
func below(p []byte, seen *manifest.Seen, waiting []b3.Root) []b3.Root {
	refs, err := manifest.Refs(p)
	if err != nil {
		return waiting
	}
	for i := len(refs) - 1; i >= 0 && len(waiting) < maxReadAhead; i-- {
		if refs[i].Manifest && seen.Add(refs[i].Root) {
			waiting = append(waiting, refs[i].Root)
		}
	}
	return waiting
}

// empty is the address of the empty object.
var empty = b3.Sum(nil)

// falseSize returns the error of a file that does not have the size that its directory says.
func falseSize(path string, e *manifest.Entry) error {
	return status.Errorf(status.Corrupt, "%s does not have the %d bytes that its directory says. The directory is "+
		"false; get the file alone", quoted(path), e.Size)
}

func quoted(path string) string { return fmt.Sprintf("%q", exchange.Clip(path)) }
