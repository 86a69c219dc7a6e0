package tree

import (
	"archive/tar"
	"errors"
	"io"
	"strings"

	"allium/gateway/api"
	"allium/node/tree/extract"
	"allium/protocols/status"
)

// ExtractOptions are the choices of an extraction.
type ExtractOptions = extract.Options

// Extract writes what Get returned to the file or directory target, which
// appears only when it is whole. Nothing is written outside it. It does not
// close the stream.
func Extract(s *api.Stream, target string, o ExtractOptions, report api.ProgressFunc) error {
	x, err := extract.Begin(target, o)
	if err != nil {
		return err
	}
	if err = extractStream(x, s, report); err == nil {
		err = x.Commit()
	}
	if err != nil {
		return errors.Join(err, x.Abort())
	}
	return nil
}

// extractStream hands a stream to the extractor. A stream that ends early is the
// body's error, so it is never taken for the whole.
func extractStream(x *extract.Extractor, s *api.Stream, report api.ProgressFunc) error {
	body := &progressReader{r: s.Body, report: report}
	if s.Kind == api.File {
		body.p.TotalBytes, body.p.Resumed = s.Size, s.Resumed
		return x.File("", s.Size, s.Executable, body)
	}
	tr := tar.NewReader(body)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, body) // the padding, and the proof that nothing was cut
			return err
		}
		if err != nil {
			return err
		}
		body.p.Objects++
		p := strings.TrimSuffix(h.Name, "/")
		if p == "." {
			p = "" // the directory itself
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = x.Dir(p)
		case tar.TypeSymlink:
			err = x.Symlink(p, h.Linkname)
		case tar.TypeReg:
			err = x.File(p, h.Size, h.Mode&0o111 != 0, tr)
		default:
			err = status.Errorf(status.Upstream, "the node sent an entry of type %q for %s", h.Typeflag, p)
		}
		if err != nil {
			return err
		}
	}
}

// progressReader reports what passes through it.
type progressReader struct {
	r      io.Reader
	report api.ProgressFunc // may be nil
	p      api.Progress
}

func (m *progressReader) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.p.Bytes += int64(n)
	if m.report != nil {
		m.report(m.p)
	}
	return n, err
}
