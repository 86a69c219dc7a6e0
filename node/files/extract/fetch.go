package extract

import (
	"archive/tar"
	"context"
	"io"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// A Fetcher asks for files in one request until either bound is reached.
const (
	fetchFiles = 1024     // at most api.MaxRoots
	fetchBytes = 64 << 20 // the last file may exceed it
)

// FileReader is the part of [api.Reader] that sends files.
type FileReader interface {
	Files(ctx context.Context, roots []b3.Root) (*api.Stream, error)
}

// Fetcher asks a node for files, many in one request. It holds the entries of one request. It is not
// safe for concurrent use.
type Fetcher struct {
	From FileReader
	// Write takes the content of each file in the order of Add. It checks the content: r may yield
	// other bytes than those of the entry.
	Write  func(path string, e manifest.Entry, r io.Reader) error
	Report api.ProgressFunc // may be nil

	needed []neededFile
	bytes  int64
	done   api.Progress
}

type neededFile struct {
	path  string
	entry manifest.Entry
}

// Add takes the next file. It asks for it and those before once they are enough for one request.
func (f *Fetcher) Add(ctx context.Context, path string, e manifest.Entry) error {
	f.needed = append(f.needed, neededFile{path, e})
	if f.bytes += e.Size; len(f.needed) < fetchFiles && f.bytes < fetchBytes {
		return nil
	}
	return f.Flush(ctx)
}

// Flush asks for the files that were added, and writes them.
func (f *Fetcher) Flush(ctx context.Context) error {
	if len(f.needed) == 0 {
		return nil
	}
	roots := make([]b3.Root, len(f.needed))
	for i, n := range f.needed {
		roots[i] = n.entry.Root
	}
	stream, err := f.From.Files(ctx, roots)
	if err != nil {
		return err
	}
	defer stream.Body.Close()
	tr := tar.NewReader(stream.Body)
	file := &ProgressReader{tr, f.Report, &f.done}
	for _, n := range f.needed {
		h, err := tr.Next()
		if err != nil {
			return err
		}
		if h.Name != n.entry.Root.Hex() || h.Size != n.entry.Size {
			return status.Errorf(status.Upstream, "the node sent %s of %d bytes for %s", h.Name, h.Size, n.path)
		}
		if err := f.Write(n.path, n.entry, file); err != nil {
			return err
		}
		f.done.Objects++
	}
	if _, err := io.Copy(io.Discard, stream.Body); err != nil { // the padding; an error says that the stream was cut
		return err
	}
	f.needed, f.bytes = f.needed[:0], 0
	return nil
}

// ManifestEntry returns an entry as manifests have it.
func ManifestEntry(e api.Entry) manifest.Entry {
	me := manifest.Entry{Name: e.Name, Root: e.Root, Size: e.Size, Executable: e.Executable, Target: e.Target}
	switch e.Kind {
	case api.Directory:
		me.Kind = manifest.Directory
	case api.Link:
		me.Kind = manifest.Link
	}
	return me
}

// ProgressReader reports the bytes that are read through it.
type ProgressReader struct {
	io.Reader
	Report   api.ProgressFunc // may be nil
	Progress *api.Progress    // what is reported; Read adds to its bytes
}

func (m *ProgressReader) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.Progress.Bytes += int64(n)
	if m.Report != nil {
		m.Report(*m.Progress)
	}
	return n, err
}
