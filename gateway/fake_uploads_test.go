package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"allium/gateway/api"
	"allium/gateway/upload"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// fakeUploads stores what is sent among the objects of a test.
type fakeUploads struct {
	objects *fakeObjects

	mu      sync.Mutex
	full    hook[int64]         // no_space above so many bytes, where the length is known; 0: never
	refuse  error               // what everything answers
	reading hook[chan struct{}] // is told of each Put and Append that begins to read; may be nil
	read    int64               // bytes of bodies
	pins    map[string]string
	open    map[string]*upload.Upload
	data    map[string]*bytes.Buffer
	busy    map[string]bool
	n       int
	names   []string // of the files of forms
}

func (f *fakeUploads) pin(root b3.Root, o upload.Options) {
	if o.Pin {
		if f.pins == nil {
			f.pins = map[string]string{}
		}
		f.pins[root.String()] = o.Label
	}
}

func (f *fakeUploads) Present(_ context.Context, root b3.Root, o upload.Options) (api.Stored, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects.mu.Lock()
	defer f.objects.mu.Unlock()
	obj, ok := f.objects.m[root]
	if !ok || f.refuse != nil {
		return api.Stored{}, false, f.refuse
	}
	f.pin(root, o)
	return api.Stored{Root: root, Size: int64(len(obj.data)), Pinned: o.Pin}, true, nil
}

func (f *fakeUploads) fits(o upload.Options) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return f.refuse
	}
	if full := f.full.Get(); full > 0 && o.Length > full {
		return status.Errorf(status.NoSpace, "%d bytes are too many", o.Length)
	}
	return nil
}

// Read counts.
type fakeBody struct {
	f *fakeUploads
	r io.Reader
}

func (b fakeBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	b.f.read += int64(n)
	return n, err
}

func (f *fakeUploads) begin() {
	if c := f.reading.Get(); c != nil {
		c <- struct{}{}
	}
}

func (f *fakeUploads) Put(_ context.Context, r io.Reader, o upload.Options) (api.Stored, error) {
	if err := f.fits(o); err != nil {
		return api.Stored{}, err
	}
	f.begin()
	p, err := io.ReadAll(fakeBody{f, r})
	if err != nil {
		return api.Stored{}, fmt.Errorf("store: put: %w", err)
	}
	return f.commit(p, o)
}

func (f *fakeUploads) commit(p []byte, o upload.Options) (api.Stored, error) {
	root := b3.Sum(p)
	if !o.Expect.IsZero() && root != o.Expect {
		return api.Stored{}, status.Errorf(status.BadDigest, "the bytes are %s, not %s", root, o.Expect)
	}
	f.objects.mu.Lock()
	_, here := f.objects.m[root]
	f.objects.mu.Unlock()
	f.objects.put(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pin(root, o)
	return api.Stored{Root: root, Size: int64(len(p)), New: !here, Pinned: o.Pin}, nil
}

func (f *fakeUploads) New(_ context.Context, _ capability.Grant, o upload.Options) (upload.Upload, error) {
	if err := f.fits(o); err != nil {
		return upload.Upload{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	u := &upload.Upload{ID: fmt.Sprintf("%032x", f.n), Options: o, Expires: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}
	if f.open == nil {
		f.open, f.data, f.busy = map[string]*upload.Upload{}, map[string]*bytes.Buffer{}, map[string]bool{}
	}
	f.open[u.ID], f.data[u.ID] = u, &bytes.Buffer{}
	return *u, nil
}

func (f *fakeUploads) find(id string) (*upload.Upload, error) {
	u, ok := f.open[id]
	switch {
	case f.refuse != nil:
		return nil, f.refuse
	case !ok:
		return nil, status.Errorf(status.NotFound, "no upload %s", id)
	case u == nil:
		return nil, status.Errorf(status.Gone, "upload %s was removed", id)
	}
	return u, nil
}

func (f *fakeUploads) Upload(_ context.Context, id string) (upload.Upload, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u, err := f.find(id)
	if err != nil {
		return upload.Upload{}, err
	}
	return *u, nil
}

func (f *fakeUploads) Append(
	_ context.Context, _ capability.Grant, id string, offset int64, r io.Reader,
) (upload.Upload, error) {
	f.mu.Lock()
	u, err := f.find(id)
	switch {
	case err != nil:
		f.mu.Unlock()
		return upload.Upload{}, err
	case f.busy[id] || u.Offset != offset:
		now := *u
		f.mu.Unlock()
		return now, status.Errorf(status.Conflict, "upload %s is elsewhere", id)
	}
	f.busy[id] = true
	data, left := f.data[id], u.Length-offset
	f.mu.Unlock()
	f.begin()
	n, err := io.Copy(data, io.LimitReader(fakeBody{f, r}, left))
	if err == nil && n == left {
		if extra, _ := io.ReadAll(io.LimitReader(r, 1)); len(extra) > 0 {
			err = status.Errorf(status.BodyCap, "more than %d bytes", offset+left)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy[id] = false
	u.Offset += n
	if err != nil || u.Offset < u.Length || u.Stored != nil {
		return *u, err
	}
	o, p := u.Options, bytes.Clone(data.Bytes())
	f.mu.Unlock()
	s, err := f.commit(p, o)
	f.mu.Lock()
	if err != nil {
		f.open[id] = nil
		return upload.Upload{}, err
	}
	u.Stored = &s
	return *u, nil
}

func (f *fakeUploads) Remove(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.find(id); err != nil {
		return err
	}
	f.open[id] = nil
	return nil
}

func (f *fakeUploads) wasRead() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read
}

func (f *fakeUploads) pinned(root b3.Root) (label string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	label, ok = f.pins[root.String()]
	return label, ok
}

// PutTree stores what the archive holds as one object: the names and contents of a form's files, or the
// bytes of a tar or zip.
func (f *fakeUploads) PutTree(_ context.Context, t upload.Tree, o upload.Options) (api.Added, error) {
	if err := f.fits(o); err != nil {
		return api.Added{}, err
	}
	f.begin()
	added := api.Added{Name: ".", Kind: api.Directory}
	var all []byte
	if t.Format != upload.Form {
		p, err := io.ReadAll(fakeBody{f, t.Body})
		if err != nil {
			return api.Added{}, err
		}
		all = p
	}
	for t.Format == upload.Form {
		name, body, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return api.Added{}, err
		}
		p, err := io.ReadAll(fakeBody{f, body})
		if err != nil {
			return api.Added{}, err
		}
		added.Files++
		f.mu.Lock()
		f.names = append(f.names, name)
		f.mu.Unlock()
		all = append(append(all, name...), p...)
	}
	s, err := f.commit(all, o)
	added.Root, added.Bytes = s.Root, int64(len(all))
	if s.New {
		added.New = added.Bytes
	}
	return added, err
}
