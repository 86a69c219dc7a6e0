package bed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"allium/bench/measure"
)

// Unlimited lets one address ask a node of that home as often as it can: no limit
// may be the measure, and wrk comes from one address.
func Unlimited(home string) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	config := "[gateway]\nrate = 0.0\ninflight_per_ip = 0\nconns_per_ip = 0\n"
	return os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600)
}

// PageSize is the size in bytes of the page of the bare handler, and of the object it is compared with.
const PageSize = 4 << 10

// Mint returns a capability of the node at home for operations, such as "put,pin".
func (s *Settings) Mint(ctx context.Context, home, ops string) (string, error) {
	minted, err := s.Run(ctx, home, "token", "mint", "-q", "--op", ops, "--expires", "24h")
	return strings.TrimSpace(minted.Out), err
}

// StartBare starts the bare handler of one page of the size of a gateway's.
func (s *Settings) StartBare(ctx context.Context) (*measure.Process, error) {
	return Reference(ctx, "page", strconv.Itoa(PageSize))
}

// SamePage is a handler that answers everything with size bytes.
func SamePage(size int) http.Handler {
	body, length := make([]byte, size), strconv.Itoa(size)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Length", length)
		_, _ = w.Write(body) // the client went away
	})
}

// ServeBare serves h over HTTP and does nothing else.
func ServeBare(ctx context.Context, h http.Handler) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s\ngateway on http://%[1]s\nready\n", l.Addr())
	s := http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
