package lookups

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fxamacker/cbor/v2"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/record"
	"github.com/multiformats/go-varint"
	"google.golang.org/protobuf/proto"

	"allium/bench/bed"
	"allium/protocols/b3"
	"allium/protocols/dht"
	"allium/protocols/dht/messages"
	"allium/protocols/status"
)

// The records that the node holds before the load begins: every get is answered with as many.
const (
	loadObjects   = 64
	loadProviders = 4  // of each
	loadCloser    = 19 // peers in an answer: k without the one that asks
)

// provRequest and provResponse are the provider exchange of OAP1 §11.
type provRequest struct {
	Op         int    `cbor:"0,keyasint"` // 1 put, 2 get
	Key        []byte `cbor:"1,keyasint"`
	Envelope   []byte `cbor:"2,keyasint,omitempty"`
	PeerRecord []byte `cbor:"3,keyasint,omitempty"`
}

type provResponse struct {
	Code      int               `cbor:"0,keyasint"`
	Providers []cbor.RawMessage `cbor:"1,keyasint"`
	Closer    []cbor.RawMessage `cbor:"2,keyasint"`
	Reason    string            `cbor:"3,keyasint"`
}

// rpc is one request of the load, encoded and signed.
type rpc struct {
	from  *loadPeer
	proto protocol.ID
	msg   []byte
}

// loadPeer is a peer that asks the node.
type loadPeer struct {
	host       host.Host
	node       peer.ID
	key        crypto.PrivKey
	peerRecord []byte // signed
}

type loadPeerSet []*loadPeer

// startPeers starts the peers and connects each to one of the node's
// addresses, in turn. They answer as servers do, so that the node has a full
// routing table to answer from.
func startPeers(ctx context.Context, addrs []string) (_ loadPeerSet, err error) {
	var set loadPeerSet
	defer func() {
		if err != nil {
			err = errors.Join(err, set.close())
		}
	}()
	for i := range loadPeers {
		info, err := peer.AddrInfoFromString(addrs[i%len(addrs)])
		if err != nil {
			return nil, err
		}
		h, key, err := bed.BuildHost(ctx, nil)
		if err != nil {
			return nil, err
		}
		p := &loadPeer{host: h, node: info.ID, key: key}
		set = append(set, p)
		h.SetStreamHandler(dht.KadID, answerWith(pb.NewMessage(pb.Message_FIND_NODE, nil, 0)))
		h.SetStreamHandler(dht.ProviderID, answerNothing)
		if err := h.Connect(ctx, *info); err != nil {
			return nil, err
		}
		if p.peerRecord, err = p.seal(peer.PeerRecordFromAddrInfo(*host.InfoFromHost(h))); err != nil {
			return nil, err
		}
	}
	return set, nil
}

func (set loadPeerSet) close() error {
	var errs []error
	for _, p := range set {
		errs = append(errs, p.host.Close())
	}
	return errors.Join(errs...)
}

func (p *loadPeer) seal(r record.Record) ([]byte, error) {
	e, err := record.Seal(r, p.key)
	if err != nil {
		return nil, err
	}
	return e.Marshal()
}

// plan makes n requests, the peers taking turns, after it has given the node
// the records that the gets ask for.
func (set loadPeerSet) plan(ctx context.Context, n int) ([]rpc, error) {
	objects := make([]b3.Root, loadObjects)
	for i := range objects {
		objects[i] = randomRoot()
		for j := range loadProviders {
			q, err := set[(i+j)%len(set)].put(objects[i])
			if err != nil {
				return nil, err
			}
			if _, o := q.do(ctx); o != status.OK {
				return nil, fmt.Errorf("the node did not take a record: %s", o)
			}
		}
	}
	if err := set[0].awaitFull(ctx, objects[0]); err != nil {
		return nil, err
	}
	plan := make([]rpc, n)
	for i := range plan {
		from := set[i%len(set)]
		var err error
		// The turn of the kinds moves on with each turn of the peers.
		switch turn := (i + i/len(set)) % 10; {
		case turn%2 == 0:
			plan[i], err = from.findNode()
		case turn == 5:
			plan[i], err = from.put(randomRoot())
		default:
			plan[i], err = from.get(objects[i%len(objects)])
		}
		if err != nil {
			return nil, err
		}
	}
	return plan, nil
}

// awaitFull waits until the node's answers on both protocols are as long as
// they get.
func (p *loadPeer) awaitFull(ctx context.Context, root b3.Root) error {
	get, err := p.get(root)
	if err != nil {
		return err
	}
	find, err := p.findNode()
	if err != nil {
		return err
	}
	var prov provResponse
	var closer pb.Message
	for range 100 {
		raw, _ := get.do(ctx)
		full := cbor.Unmarshal(raw, &prov) == nil && len(prov.Providers) >= loadProviders &&
			len(prov.Closer) >= loadCloser
		raw, _ = find.do(ctx)
		if full && proto.Unmarshal(raw, &closer) == nil && len(closer.CloserPeers) >= loadCloser {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the node names %d providers, %d and %d closer peers, not %d and %d",
		len(prov.Providers), len(prov.Closer), len(closer.CloserPeers), loadProviders, loadCloser)
}

func randomRoot() (root b3.Root) {
	_, _ = rand.Read(root[:]) // never fails
	return root
}

func (p *loadPeer) findNode() (rpc, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	raw, err := proto.Marshal(pb.NewMessage(pb.Message_FIND_NODE, key, 0))
	return rpc{p, dht.KadID, framed(raw)}, err
}

func (p *loadPeer) get(root b3.Root) (rpc, error) {
	raw, err := cbor.Marshal(provRequest{Op: 2, Key: root.Multihash()})
	return rpc{p, dht.ProviderID, framed(raw)}, err
}

func (p *loadPeer) put(root b3.Root) (rpc, error) {
	env, err := p.seal(&messages.Record{Root: root, Provider: p.host.ID(), Seq: 1, NotAfter: time.Now().Add(time.Hour)})
	if err != nil {
		return rpc{}, err
	}
	raw, err := cbor.Marshal(provRequest{Op: 1, Key: root.Multihash(), Envelope: env, PeerRecord: p.peerRecord})
	return rpc{p, dht.ProviderID, framed(raw)}, err
}

// framed puts the length before a message.
func framed(p []byte) []byte { return append(varint.ToUvarint(uint64(len(p))), p...) }

// maxAnswer bounds an answer, bytes.
const maxAnswer = 128 << 10

// do makes the call on a new stream, as nodes do, and returns the response and the outcome.
func (q rpc) do(ctx context.Context) ([]byte, status.Outcome) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	s, err := q.from.host.NewStream(ctx, q.from.node, q.proto)
	if err != nil {
		return nil, outcome(ctx, err)
	}
	answer, err := talk(ctx, s, q.msg)
	if err != nil {
		_ = s.Reset()
		return nil, outcome(ctx, err)
	}
	_ = s.Close()
	if q.proto == dht.KadID {
		return answer, status.OK
	}
	var r provResponse
	if err := cbor.Unmarshal(answer, &r); err != nil {
		return nil, status.Upstream
	}
	if o, ok := status.Parse(r.Reason); ok {
		return answer, o
	}
	return answer, status.FromCode(r.Code)
}

func talk(ctx context.Context, s network.Stream, q []byte) ([]byte, error) {
	defer context.AfterFunc(ctx, func() { _ = s.Reset() })()
	if _, err := s.Write(q); err != nil {
		return nil, err
	}
	closed := s.CloseWrite() // fails when the node has answered or refused by now
	answer, err := readFramed(s)
	if err != nil {
		return nil, errors.Join(err, closed)
	}
	return answer, nil
}

func readFramed(r io.Reader) ([]byte, error) {
	b := bufio.NewReader(r)
	n, err := varint.ReadUvarint(b)
	if err != nil {
		return nil, err
	}
	if n > maxAnswer {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	p := make([]byte, n)
	_, err = io.ReadFull(b, p)
	return p, err
}

// unsent is the outcome of a call that the asking host's own limits kept back:
// so many of its streams wait for the node, or for the machine.
const unsent = status.Canceled

// outcome names a failed call: what the node's reset says, unsent, timeout, or
// transport_down for all else.
func outcome(ctx context.Context, err error) status.Outcome {
	var reset *network.StreamError
	if errors.As(err, &reset) && reset.Remote {
		switch reset.ErrorCode {
		case network.StreamRateLimited:
			return status.RateLimit
		case network.StreamResourceLimitExceeded:
			return status.Busy
		}
	}
	switch {
	case errors.Is(err, network.ErrResourceLimitExceeded):
		return unsent
	case ctx.Err() != nil:
		return status.Timeout
	}
	return status.TransportDown
}

// answerWith answers every request with the same message.
func answerWith(m *pb.Message) network.StreamHandler {
	return func(s network.Stream) {
		raw, err := proto.Marshal(m)
		if err == nil {
			err = answer(s, raw)
		}
		if err != nil {
			_ = s.Reset()
		}
	}
}

// answerNothing knows no provider.
func answerNothing(s network.Stream) {
	raw, err := cbor.Marshal(map[int]int{0: 200})
	if err == nil {
		err = answer(s, raw)
	}
	if err != nil {
		_ = s.Reset()
	}
}

func answer(s network.Stream, raw []byte) error {
	if err := s.SetDeadline(time.Now().Add(loadTimeout)); err != nil {
		return err
	}
	if _, err := readFramed(s); err != nil {
		return err
	}
	if _, err := s.Write(framed(raw)); err != nil {
		return err
	}
	return s.Close()
}
