package pack

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"allium/gateway/exchange"
	"allium/gateway/pack/tile"
	"allium/internal/cores"
	"allium/protocols/status"
)

// Permits limit the requests that ask peers.
type Permits interface {
	// AcquireFetch waits for a permit. The caller calls leave.
	AcquireFetch(ctx context.Context, w *exchange.Response) (leave func(), err error)
}

// Handlers serve the packs of a Set. Their methods may be called from any goroutine.
type Handlers struct {
	set     *Set // nil: there are no packs
	permits Permits
}

// NewHandlers returns the handlers. A nil set has no packs.
func NewHandlers(set *Set, permits Permits) *Handlers { return &Handlers{set: set, permits: permits} }

// target is a parsed path below /edge/packs/.
type target struct {
	pack  string
	kind  kind
	coord tile.Coord
	ext   string // of the tile's URL
}

// kind is the kind of answer that a path asks for.
type kind uint8

const (
	kindTile kind = iota
	kindTileJSON
	kindPage
	kindBare // the page without the slash at its end
)

// parse parses an escaped path below /edge/packs/.
func parse(rest string) (t target, err error) {
	path, err := url.PathUnescape(rest)
	if err != nil {
		return t, exchange.BadEscape(err)
	}
	parts := strings.Split(path, "/")
	t.pack = parts[0]
	switch {
	case len(parts) == 1:
		t.kind = kindBare
		if name, ok := strings.CutSuffix(t.pack, ".json"); ok {
			t.pack, t.kind = name, kindTileJSON
		}
		return t, nil
	case len(parts) == 2 && parts[1] == "":
		t.kind = kindPage
		return t, nil
	case len(parts) != 4:
		return t, status.Errorf(status.BadRequest,
			"%.80q is no path of a pack. Write PACK/Z/X/Y.EXT, PACK.json or PACK/", path)
	}
	y, ext, _ := strings.Cut(parts[3], ".")
	z, zErr := strconv.ParseUint(parts[1], 10, 8)
	x, xErr := strconv.ParseUint(parts[2], 10, 32)
	row, yErr := strconv.ParseUint(y, 10, 32)
	if err := errors.Join(zErr, xErr, yErr); err != nil || !canonical(parts[1], parts[2], y) {
		return t, status.Errorf(status.BadRequest, "%.80q names no tile. Write Z/X/Y.EXT with whole numbers", path)
	}
	t.coord, t.ext = tile.Coord{Z: uint8(z), X: uint32(x), Y: uint32(row)}, ext
	return t, nil
}

// canonical reports whether numbers are written without signs and leading zeros, so that each tile has one URL.
func canonical(numbers ...string) bool {
	return !slices.ContainsFunc(numbers, func(s string) bool { return s[0] == '+' || s[0] == '0' && len(s) > 1 })
}

// serve serves a path below /edge/packs/.
func (h *Handlers) serve(w *exchange.Response, r *http.Request, in exchange.Input) error {
	if h.set == nil {
		return status.Errorf(status.NotFound, "this node has no packs. Name one in edge.packs")
	}
	readable := exchange.DecideOrigin(w.Header(), h.set.live.Load().CORS, r.Header.Get("Origin"))
	t, err := parse(in.Rest)
	if err != nil {
		return err
	}
	if t.kind == kindBare {
		if _, err := h.set.find(t.pack); err != nil {
			return err
		}
		w.Caching = "no-cache"
		return w.Redirect(r, http.StatusMovedPermanently, "/edge/packs/"+t.pack+"/")
	}
	if readable {
		w.Header()["Cross-Origin-Resource-Policy"] = crossOrigin
	}
	m, s, err := h.set.enter(t.pack)
	if err != nil {
		return err
	}
	defer s.leave()
	w.Root = s.root
	if err := h.allowed(s); err != nil {
		return err
	}
	if t.kind == kindTile {
		result, err := h.tile(w, r, m, s, t)
		h.set.m.results[result].Inc()
		return err
	}
	if err := s.unchanged(); err != nil {
		return err
	}
	if t.kind == kindTileJSON {
		return h.tileJSON(w, r, m, s)
	}
	return h.page(w, r, m, s)
}

// allowed returns why the pack may not be served.
func (h *Handlers) allowed(s *state) error {
	if s.file != nil {
		return nil
	}
	if s.allowed != nil {
		if err := s.allowed(); err != nil {
			return err
		}
	}
	return h.set.deps.Filter.Object(s.root)
}

// caching returns the Cache-Control of a tile. A client that names the
// state in its query gets an answer that never changes.
func caching(r *http.Request, m *mount, s *state) string {
	switch {
	case s.file == nil && !s.named, r.URL.RawQuery == "v="+s.version:
		return exchange.Immutable
	case s.named:
		return exchange.MaxAge(m.leftTTL())
	}
	return "no-cache"
}

// tileBytes holds the stored bytes of a tile.
type tileBytes struct{ stored []byte }

// read fills b with a tile.
func (b *tileBytes) read(ctx context.Context, a archive, c tile.Coord) error {
	at, err := a.Find(ctx, c)
	if err != nil {
		return err
	}
	b.stored, err = a.Read(ctx, b.stored[:0], at)
	return err
}

// buffers saves an allocation of the size of a tile for each request.
var buffers = sync.Pool{New: func() any { return new(tileBytes) }}

// maxPooled bounds the buffers in the pool in bytes.
const maxPooled = 256 << 10

// tile sends a tile, and returns the result for the metrics.
func (h *Handlers) tile(
	w *exchange.Response, r *http.Request, m *mount, s *state, t target,
) (result string, err error) {
	info := s.archive.Info()
	w.Header()["Cache-Control"] = w.HeaderValue(caching(r, m, s))
	key := tileKey{s.self, t.coord}
	hot := h.set.tiles.get(key)
	stored := hot.stored
	refused := checkTile(info, t)
	var changed error
	if refused == nil && stored == nil {
		buf := buffers.Get().(*tileBytes)
		defer func() {
			if cap(buf.stored) <= maxPooled {
				buffers.Put(buf)
			}
		}()
		err = h.read(w, r, s, t.coord, buf)
		stored = buf.stored
		changed = s.unchanged() // what was read may be of two packs
	}
	switch {
	case changed != nil:
		return tileFailed, changed
	case status.Of(refused) == status.NotFound:
		return tileMissing, refused
	case refused != nil:
		return tileRefused, refused
	case errors.Is(err, tile.ErrMissing):
		return tileMissing, missing(w, info, t)
	case err != nil:
		return tileFailed, exchange.CauseOf(r.Context(), err)
	}
	etag := hot.etag
	if hot.stored == nil {
		etag = h.set.tiles.note(key, hot, stored)
	}
	return h.send(w, r, info, etag, stored)
}

// read fills buf with a tile. It asks peers for what this node does not have, with a permit. The permit is
// taken here and not where the bytes are missed, as a directory of the pack is read once for all requests
// that need it, and for longer than one of them may last.
func (h *Handlers) read(w *exchange.Response, r *http.Request, s *state, c tile.Coord, buf *tileBytes) error {
	ctx := r.Context()
	if s.file != nil {
		return buf.read(ctx, s.archive, c)
	}
	err := buf.read(tile.LocalOnly(ctx), s.archive, c)
	if !errors.Is(err, tile.ErrAway) {
		return err
	}
	if exchange.OnlyIfCached(r) {
		return status.Errorf(status.Precondition, "this node does not have the tile, and the request has "+
			"only-if-cached. Leave that out to fetch the tile from peers")
	}
	w.ReleaseAdmission()
	leave, err := h.permits.AcquireFetch(ctx, w)
	if err != nil {
		return err
	}
	defer leave()
	return buf.read(ctx, s.archive, c)
}

// checkTile returns not_found for a tile that no pack of these zooms has, and bad_request for a wrong extension.
func checkTile(info *tile.Info, t target) error {
	if got, ok := tile.ParseExt(t.ext); !ok || got != info.Type {
		return status.Errorf(status.BadRequest, "the tiles of this pack are not %.20q. Ask for %s.%s", t.ext, t.coord,
			info.Type.Ext())
	}
	switch {
	case t.coord.Z < info.MinZoom || t.coord.Z > info.MaxZoom:
		return status.Errorf(status.NotFound, "the pack has no zoom %d: it has %d to %d", t.coord.Z, info.MinZoom,
			info.MaxZoom)
	case !t.coord.Valid():
		return status.Errorf(status.NotFound, "there is no tile %s: x and y are 0 to %d at that zoom", t.coord,
			uint64(1)<<t.coord.Z-1)
	}
	return nil
}

// missing answers for a tile that the pack does not have. An empty vector tile is none, as renderers know.
func missing(w *exchange.Response, info *tile.Info, t target) error {
	if !info.Type.Vector() {
		return status.Errorf(status.NotFound, "the pack has no tile %s", t.coord)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// Header values of many answers, which nobody modifies.
var (
	crossOrigin = []string{"cross-origin"}
	tilePolicy  = []string{"sandbox; default-src 'none'"} // a tile is no more than data
)

// send sends the stored bytes of a tile, decompressed for a client that does not accept their encoding.
// etag is that of the stored bytes.
func (h *Handlers) send(
	w *exchange.Response, r *http.Request, info *tile.Info, etag string, stored []byte,
) (result string, err error) {
	header := w.Header()
	encoding := info.EncodingOf(stored)
	if encoding != tile.Identity {
		header.Add("Vary", "Accept-Encoding")
		if !exchange.AcceptsCoding(r, string(encoding)) {
			if encoding != tile.Gzip {
				return tileRefused, status.Errorf(status.Unsupported,
					"the tile is compressed with %s. Send Accept-Encoding: %s", encoding, encoding)
			}
			if stored, err = plain(r.Context(), h.set.deps.Cores, stored); err != nil {
				return tileFailed, err
			}
			etag = strings.TrimSuffix(etag, `"`) + `-plain"`
			encoding = tile.Identity
		}
	}
	header["Etag"] = w.HeaderValue(etag)
	switch exchange.Evaluate(r, etag) {
	case status.Precondition:
		return tileRefused, exchange.IfMatchFailed(etag)
	case status.NotModified:
		w.WriteHeader(http.StatusNotModified)
		return tileFresh, nil
	}
	if encoding != tile.Identity {
		header["Content-Encoding"] = w.HeaderValue(string(encoding))
	}
	header["Content-Security-Policy"] = tilePolicy
	return tileSent, w.Send(r, http.StatusOK, info.Type.Media(), stored)
}

// plain decompresses a tile, of at most maxPlain bytes, on a core of the pool.
func plain(ctx context.Context, pool *cores.Pool, stored []byte) ([]byte, error) {
	if err := pool.Acquire(ctx, cores.Foreground); err != nil {
		return nil, err
	}
	defer pool.Leave(cores.Foreground)
	z, err := gzip.NewReader(bytes.NewReader(stored))
	if err != nil {
		return nil, status.Errorf(status.Corrupt, "the tile is not the gzip that the pack says: %w", err)
	}
	var out bytes.Buffer
	n, err := io.Copy(&out, io.LimitReader(z, maxPlain+1))
	switch {
	case err != nil:
		return nil, status.Errorf(status.Corrupt, "the tile cannot be decompressed: %w", err)
	case n > maxPlain:
		return nil, status.Errorf(status.DecompressCap, "the tile has more than %d MiB when it is decompressed. "+
			"Send Accept-Encoding: gzip", maxPlain>>20)
	}
	return out.Bytes(), nil
}
