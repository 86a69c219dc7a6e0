package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	homedir "allium/node/home"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/node/p2p"
	"allium/protocols/dht/seeds"
	"allium/protocols/status"
)

// maxSeedFile is the maximum number of bytes of a seed manifest that are read. It is more than a
// valid one may have, so that a longer file is refused and not cut.
const maxSeedFile = 128 << 10

// SignedSeeds is a signed seed manifest.
type SignedSeeds struct {
	Seq      uint64       `json:"seq"`
	Signer   string       `json:"signer"` // peer id
	NotAfter time.Time    `json:"not_after"`
	Seeds    []SignedSeed `json:"seeds"`
}

// SignedSeed is one seed of a manifest.
type SignedSeed struct {
	ID    string   `json:"id"`
	Addrs []string `json:"addrs"` // without /p2p/ID
}

// SignSeeds signs a seed manifest with the identity in the file key. Each of
// addrs is a multiaddr that ends with /p2p/ID. It returns the text for the file,
// and its content. A key file that does not exist is status.BadRequest.
func SignSeeds(key string, addrs []string, seq uint64, notAfter time.Time) ([]byte, SignedSeeds, error) {
	infos, err := seeds.ParseAddrs(addrs)
	if err != nil {
		return nil, SignedSeeds{}, err
	}
	if _, err := os.Stat(key); errors.Is(err, fs.ErrNotExist) {
		return nil, SignedSeeds{}, status.Errorf(status.BadRequest,
			"there is no key in %s; `allium --home DIR init` makes one in DIR/%s", key, homedir.KeyFile)
	}
	private, err := p2p.LoadOrCreateKey(key)
	if err != nil {
		return nil, SignedSeeds{}, err
	}
	text, err := seeds.Sign(private, seeds.Manifest{Seq: seq, NotAfter: notAfter, Seeds: infos})
	if err != nil {
		return nil, SignedSeeds{}, err
	}
	m, signer, err := seeds.Verify(text)
	if err != nil {
		return nil, SignedSeeds{}, err
	}
	return text, signedSeeds(m, signer), nil
}

// InspectSeeds reads a seed manifest and checks it as a node with these
// authorities does. Without authorities it accepts any signer. The error is
// status.Stale for a manifest that has expired, and status.BadSignature for one
// that nobody of authorities signed; SignedSeeds is filled in both cases.
func InspectSeeds(file string, authorities []string) (SignedSeeds, error) {
	trusted, err := seeds.ParseIDs(authorities)
	if err != nil {
		return SignedSeeds{}, err
	}
	raw, err := readSeeds(file)
	if err != nil {
		return SignedSeeds{}, err
	}
	m, signer, err := seeds.Verify(raw)
	if err != nil {
		return SignedSeeds{}, fmt.Errorf("%s: %w", file, err)
	}
	if len(trusted) == 0 {
		trusted = []peer.ID{signer}
	}
	_, _, err = seeds.Open(raw, trusted, time.Now())
	return signedSeeds(m, signer), err
}

// readSeeds reads at most maxSeedFile bytes of the file of a seed manifest.
func readSeeds(name string) ([]byte, error) {
	info, err := os.Stat(name) // opening a pipe would block
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "the seed manifest cannot be read: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, status.Errorf(status.BadRequest, "the seed manifest cannot be read: %s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "the seed manifest cannot be read: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxSeedFile))
	if err != nil {
		return nil, fmt.Errorf("the seed manifest cannot be read: %w", err)
	}
	return raw, nil
}

func signedSeeds(m seeds.Manifest, signer peer.ID) SignedSeeds {
	s := SignedSeeds{Seq: m.Seq, Signer: signer.String(), NotAfter: m.NotAfter.UTC(), Seeds: []SignedSeed{}}
	for _, info := range m.Seeds {
		s.Seeds = append(s.Seeds, SignedSeed{ID: info.ID.String(), Addrs: texts(info.Addrs)})
	}
	return s
}

// texts returns each value's String. The result is never nil.
func texts[T fmt.Stringer](values []T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = v.String()
	}
	return all
}
