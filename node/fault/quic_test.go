package fault

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	"github.com/quic-go/quic-go"
)

// BenchmarkLossyQUIC sends 8 MiB over one connection of quic-go with nothing else above it, between two sockets that
// are 50 ms apart, there and back, and lose half a percent of the packets each way. It is what a scenario with latency
// and loss compares with.
func BenchmarkLossyQUIC(b *testing.B) {
	const size = 8 << 20
	loopback := func() (*Links, *quic.Transport) {
		links := NewLinks(nil)
		c, err := links.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			b.Fatal(err)
		}
		return links, &quic.Transport{Conn: c}
	}
	a, from := loopback()
	z, to := loopback()
	b.Cleanup(func() { _ = from.Close(); _ = to.Close(); a.Close(); z.Close() })
	for links, peer := range map[*Links]*quic.Transport{a: to, z: from} {
		at, err := ma.NewMultiaddr("/ip4/127.0.0.1/udp/" + portOf(peer) + "/quic-v1")
		if err != nil {
			b.Fatal(err)
		}
		links.Set([]Link{{Peer: far, Addrs: []ma.Multiaddr{at}, Delay: 25 * time.Millisecond, Loss: 0.005}}, 0)
	}
	l, err := to.Listen(&tls.Config{Certificates: []tls.Certificate{certificate(b)}, NextProtos: []string{"t"}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	var serving sync.WaitGroup
	serving.Go(func() {
		c, err := l.Accept(ctx)
		if err != nil {
			return
		}
		for {
			s, err := c.AcceptUniStream(ctx)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, s)
			if s, err := c.OpenUniStream(); err == nil {
				_ = s.Close()
			}
		}
	})
	c, err := from.Dial(ctx, l.Addr(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"t"}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	for b.Loop() {
		s, err := c.OpenUniStreamSync(ctx)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = s.Write(make([]byte, size))
		_ = s.Close()
		if _, err := c.AcceptUniStream(context.WithoutCancel(ctx)); err != nil {
			b.Fatal(err)
		}
	}
	_ = c.CloseWithError(0, "")
	serving.Wait()
}

func portOf(t *quic.Transport) string {
	_, port, _ := net.SplitHostPort(t.Conn.LocalAddr().String())
	return port
}

func certificate(b *testing.B) tls.Certificate {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	self := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, self, self, pub, key)
	if err != nil {
		b.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
