package bulk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"

	"allium/bench/bed"
)

// The protocols of the reference server.
const (
	pipeProtocol = protocol.ID("/bench/pipe")
	rawProtocol  = protocol.ID("/bench/raw")
)

// chunk is the maximum number of bytes that the reference programs read and write at a time.
const chunk = 256 << 10

// Copy is read + hash + write + fdatasync in the shortest way.
func Copy(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return store(f, to)
}

// store hashes and writes r to a new file and makes it durable.
func store(r io.Reader, to string) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	h := blake3.New()
	if err := hashThrough(h, f, r); err != nil {
		return err
	}
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return err
	}
	h.Sum(nil)
	return f.Close()
}

// hashThrough copies r to w and hashes it.
func hashThrough(h *blake3.Hasher, w io.Writer, r io.Reader) error {
	buf := make([]byte, chunk)
	for {
		n, err := io.ReadFull(r, buf)
		_, _ = h.Write(buf[:n]) // never fails
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return err
		}
	}
}

// Serve sends the file, which it hashes, to peers that open pipeProtocol, and as many raw bytes to those that open
// rawProtocol.
func Serve(ctx context.Context, file, listen string) error {
	h, _, err := bed.BuildHost(ctx, []string{listen})
	if err != nil {
		return err
	}
	h.SetStreamHandler(pipeProtocol, func(s network.Stream) {
		if err := send(s, file); err != nil {
			_ = s.Reset()
		}
	})
	h.SetStreamHandler(rawProtocol, func(s network.Stream) {
		if err := sendRaw(s, file); err != nil {
			_ = s.Reset()
		}
	})
	addrs, err := peer.AddrInfoToP2pAddrs(host.InfoFromHost(h))
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s\nready\n", addrs[0])
	return untilTerminated(ctx, h)
}

func send(s network.Stream, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	h := blake3.New()
	if err := hashThrough(h, s, f); err != nil {
		return err
	}
	h.Sum(nil)
	return s.CloseWrite()
}

func sendRaw(s network.Stream, file string) error {
	fi, err := os.Stat(file)
	if err != nil {
		return err
	}
	buf := make([]byte, chunk)
	for left := fi.Size(); left > 0; left -= int64(len(buf)) {
		buf = buf[:min(left, int64(len(buf)))]
		if _, err := s.Write(buf); err != nil {
			return err
		}
	}
	return s.CloseWrite()
}

// open opens a stream to the server on a connection that is already warm.
func open(ctx context.Context, addr string, id protocol.ID) (host.Host, network.Stream, error) {
	info, err := peer.AddrInfoFromString(addr)
	if err != nil {
		return nil, nil, err
	}
	h, _, err := bed.BuildHost(ctx, []string{})
	if err != nil {
		return nil, nil, err
	}
	if err := h.Connect(ctx, *info); err != nil {
		return nil, nil, err
	}
	s, err := h.NewStream(ctx, info.ID, id)
	return h, s, err
}

// Pull receives, hashes, writes and syncs; it prints the seconds it took.
func Pull(ctx context.Context, addr, to string) error {
	h, s, err := open(ctx, addr, pipeProtocol)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := store(s, to); err != nil {
		return err
	}
	fmt.Println(time.Since(begun).Seconds())
	return h.Close()
}

// PullRaw receives and forgets; it prints the seconds it took.
func PullRaw(ctx context.Context, addr string) error {
	h, s, err := open(ctx, addr, rawProtocol)
	if err != nil {
		return err
	}
	begun := time.Now()
	buf := make([]byte, chunk)
	for {
		_, err := s.Read(buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	fmt.Println(time.Since(begun).Seconds())
	return h.Close()
}

// untilTerminated serves until SIGTERM, then closes the host.
func untilTerminated(ctx context.Context, h host.Host) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
	return h.Close()
}
