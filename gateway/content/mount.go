package content

import (
	"mime"
	"net/http"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Mount is an object that is served below a path, such as that of a link. Its pages and headers do not tell the
// address, because with the address a client could fetch the object without the limits of the path.
type Mount struct {
	Path  string // escaped, without a slash at its end
	Root  b3.Root
	File  bool   // Root is a file: the path has a page about it, and the bytes lie below it by its name
	Name  string // of the file or directory
	Note  string // a sentence for visitors; may be empty
	Plain bool   // pages show nothing of what files contain
	Salt  string // makes entity tags that do not tell addresses
	// Begin is called before the bytes of a file are sent. Its error is the answer. nil: nothing is asked.
	Begin func() error
}

// Mounts serves mounts. Its methods may be called from any goroutine.
type Mounts struct{ g *Handlers }

// NewMounts returns the Mounts of the handlers, with which it shares everything.
func NewMounts(g *Handlers) *Mounts { return &Mounts{g} }

// privately is the Cache-Control of mounts.
const privately = "private, no-cache"

// Serve serves what an escaped path below a mount names: a page, or the bytes of a file.
func (m *Mounts) Serve(w *exchange.Response, r *http.Request, at *Mount, path string) error {
	_, t, err := parsePath("x/" + path)
	if err != nil {
		return err
	}
	t.root, t.mount = at.Root, at
	w.Caching = privately
	w.Prefix += at.Path
	if !at.File {
		return m.g.browseRoot(w, r, t)
	}
	if len(t.names) > 1 || len(t.names) == 1 && (t.slash || t.names[0] != at.Name) {
		return status.Errorf(status.NotFound, "cannot find %q: this link leads to one file. Open the link itself",
			exchange.Clip(t.path()))
	}
	w.Root = at.Root
	if err := m.g.denylist.Object(at.Root); err != nil {
		return err
	}
	it := item{root: at.Root, name: at.Name, mount: at}
	return m.g.withStallTimeout(w, r, func(b *body) error {
		if len(t.names) == 0 {
			return m.g.preview(b, r, t, it, false)
		}
		return m.g.content(b, r, it, m.g.objects.Memory(at.Root))
	})
}

// key returns what the entity tags about an object begin with.
func (at *Mount) key(root b3.Root) string {
	if at == nil {
		return root.String()
	}
	return b3.Sum([]byte(at.Salt + root.Hex())).Hex()[:32]
}

// begin asks whether bytes of a file may be sent.
func (at *Mount) begin() error {
	if at == nil || at.Begin == nil {
		return nil
	}
	return at.Begin()
}

// disposition returns the Content-Disposition of a file below the mount, which keeps its name.
func (at *Mount) disposition(name string, attach bool) string {
	how := "inline"
	if attach {
		how = "attachment"
	}
	if value := mime.FormatMediaType(how, map[string]string{"filename": name}); value != "" {
		return value
	}
	return how
}
