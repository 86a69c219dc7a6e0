package health

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
)

// The bounds of a sample.
const (
	sampleBytes   = 64 << 20        // that are read
	sampleTime    = 2 * time.Second // for which they are read
	sampleObjects = 256             // that are read
	samplePiece   = 1 << 20         // bytes that are read of one object, at a random place
	samplePage    = 64              // objects of one neighbourhood of addresses
	sampleVain    = 8               // neighbourhoods in a row in which all were read
)

// Sample reads random objects of a store again and proves them: at most 64 MiB of 256 objects, for at most 2 s. Of
// an object larger than 1 MiB it reads so much at a random place. A damaged object is marked by the store, as by
// every read. The error is that of the store; the end of ctx ends the sample early and is none.
func Sample(ctx context.Context, st *store.Store) (s api.StoreSample, err error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTime)
	defer cancel()
	digits := prefixDigits(st.Stats().Objects)
	seen, buf := map[b3.Root]bool{}, make([]byte, b3.GroupSize)
	for vain := 0; vain < sampleVain; vain++ { // until the addresses repeat
		roots, err := st.Prefixed(ctx, randomDigits(digits), samplePage)
		if err != nil {
			return s, ignoreEnd(ctx, err)
		}
		rand.Shuffle(len(roots), func(i, j int) { roots[i], roots[j] = roots[j], roots[i] })
		for _, root := range roots {
			if seen[root] {
				continue
			}
			seen[root], vain = true, -1
			n, err := proveSome(ctx, st, root, buf)
			s.Bytes += n
			switch status.Of(err) {
			case status.OK:
				s.Objects++
			case status.Corrupt:
				s.Objects++
				s.Damaged++
			case status.NotFound: // it was removed meanwhile
			default:
				return s, ignoreEnd(ctx, err)
			}
			if ctx.Err() != nil || s.Bytes >= sampleBytes || s.Objects >= sampleObjects {
				return s, nil
			}
		}
	}
	return s, nil
}

// ignoreEnd returns err unless ctx has ended.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = nil
	} else if err != nil {
		err = fmt.Errorf("read a sample of the store: %w", err)
	}
	return err
}

// prefixDigits returns how many hex digits of an address leave a page of a store with so many objects, or less.
func prefixDigits(objects int64) (digits int) {
	for ; objects > samplePage/2; objects /= 16 {
		digits++
	}
	return digits
}

func randomDigits(n int) string {
	var p [b3.Size]byte
	for i := range p {
		p[i] = byte(rand.Uint32()) //nolint:gosec // any byte
	}
	return hex.EncodeToString(p[:])[:n]
}

// proveSome reads an object, or a piece at a random place of a large one, and returns how many bytes it has read.
func proveSome(ctx context.Context, st *store.Store, root b3.Root, buf []byte) (bytes int64, err error) {
	o, err := st.Open(ctx, root)
	if err != nil {
		return 0, err
	}
	defer o.Close()
	groups := max(1, (o.Size()+b3.GroupSize-1)/b3.GroupSize)
	first, most := int64(0), min(groups, samplePiece/b3.GroupSize)
	if groups > most {
		first = rand.Int64N(groups - most + 1)
	}
	for g := first; g < first+most; g++ {
		if err := ctx.Err(); err != nil {
			return bytes, err
		}
		p, err := o.Reader().ReadGroup(g, buf)
		if err != nil {
			return bytes, o.Failed(err)
		}
		bytes += int64(len(p))
	}
	return bytes, nil
}
