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

// ExtractOptions are the options of Extract.
type ExtractOptions = extract.Options

// Extract writes a stream of [api.Reader.Get] to the file or directory target. The
// target appears only when it is complete, and nothing is written outside it. Extract
// does not close the stream. report may be nil.
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

// extractStream passes the entries of a stream to the extractor. When the stream ends
// early, its Body returns an error, so a cut stream never looks complete.
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
			_, err = io.Copy(io.Discard, body) // reads the padding; an error here means that the stream was cut
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

// progressReader reports the bytes that are read through it.
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
