package home

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/libp2p/go-libp2p/core/pnet"

	"allium/internal/privatefile"
	"allium/protocols/status"
)

// SwarmKeyFile is the name in a home directory under which `allium swarm-key new` writes the key of a
// private network.
const SwarmKeyFile = "swarm.key"

// maxSwarmKey is the most bytes of the file of a pre-shared key; one in hex has 95.
const maxSwarmKey = 1 << 10

// SwarmKey reads the pre-shared key of a private network from the file at path, in the format of
// [EncodeSwarmKey] or another of kubo's. An empty path means no private network: SwarmKey returns nil.
//
// A file that does not exist, or has any other content, is status.BadRequest. A file that other users of the machine
// can open is status.Forbidden. The errors name the file and the remedy, and never quote it.
func SwarmKey(path string) (pnet.PSK, error) {
	if path == "" {
		return nil, nil
	}
	text, err := privatefile.Read(path, maxSwarmKey, privatefile.NoAccess)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, status.Errorf(status.BadRequest, "there is no swarm key %s; copy it from a node of the private "+
			"network, or make one with `allium swarm-key new`", path)
	case err != nil:
		return nil, err
	}
	psk, err := decodeSwarmKey(text)
	if err != nil {
		return nil, status.Errorf(status.BadRequest,
			"%s is not a swarm key: %w; copy it again from a node of the private "+
				"network", path, err)
	}
	return psk, nil
}

// decodeSwarmKey parses the file of a pre-shared key.
func decodeSwarmKey(text []byte) (pnet.PSK, error) {
	if len(text) > maxSwarmKey {
		return nil, fmt.Errorf("it has more than %d bytes", maxSwarmKey)
	}
	if !bytes.HasPrefix(text, []byte("/key/swarm/psk/1.0.0/")) {
		return nil, errors.New("it does not begin with /key/swarm/psk/1.0.0/")
	}
	psk, err := pnet.DecodeV1PSK(bytes.NewReader(text))
	switch {
	case err != nil:
		return nil, errors.New("the encoding or the key below its first line is damaged") // err may quote the key
	case bytes.Equal(psk, make([]byte, len(psk))):
		return nil, errors.New("the key is all zeros")
	}
	return psk, nil
}

// EncodeSwarmKey returns the text of a pre-shared key, as kubo writes it to swarm.key.
func EncodeSwarmKey(psk pnet.PSK) []byte {
	return fmt.Appendf(nil, "/key/swarm/psk/1.0.0/\n/base16/\n%s\n", hex.EncodeToString(psk))
}

// NewSwarmKey makes the key of a new private network and writes it to the file at path (mode 0600). It
// returns once the file is durable. A file that exists is status.Conflict and is left as it is, unless
// replace is true.
func NewSwarmKey(path string, replace bool) (pnet.PSK, error) {
	psk := make(pnet.PSK, 32)
	_, _ = rand.Read(psk) // never fails
	write := privatefile.Create
	if replace {
		write = privatefile.Replace
	}
	err := write(path, EncodeSwarmKey(psk))
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, status.Errorf(status.Conflict,
			"%s exists, and the nodes of its private network need it; name another "+
				"file, or replace the key with --force", path)
	case err != nil:
		return nil, fmt.Errorf("write the swarm key: %w", err)
	}
	return psk, nil
}
