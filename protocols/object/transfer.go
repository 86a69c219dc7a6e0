package object

import (
	"context"

	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// object answers one object of a get but for its status, which is what it
// returns (or a *streamError).
func (in *inbound) object(ctx context.Context, req *request, root b3.Root) (err error) {
	obj, err := in.srv.deps.Store.OpenObject(ctx, root)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := obj.Close(); err == nil {
			err = cerr
		}
	}()
	size := obj.Size()
	if size > MaxObject {
		return status.Errorf(status.Internal, "object: %s has %d bytes, more than the protocol can say", root, size)
	}
	walk, err := b3.NewWalk(root, size, req.ranges)
	if err != nil {
		return err
	}
	charge := int64(smallCharge)
	if size > b3.GroupSize {
		charge = largeCharge
	}
	if err := in.out.reserve(ctx, charge); err != nil {
		return err
	}
	in.scratch = appendStart(in.scratch[:0], root, size)
	if err := in.out.frame(respond(req.corr, oap.FlagStart, 0, in.scratch)); err != nil {
		return err
	}
	if req.sizeProof {
		proof, err := b3.NewSizeProof(root, size)
		if err != nil {
			return err
		}
		if err := in.items(ctx, req, obj.Source(), proof, charge); err != nil {
			return err
		}
	}
	return in.items(ctx, req, obj.Source(), walk, charge)
}

// items sends the walk's items in as few frames as they fit. Bytes are read
// into the frame and count as part of it only once they are verified: nothing
// unverified leaves. The frame before a bad item still goes out, for what is in
// it is good.
func (in *inbound) items(ctx context.Context, req *request, src b3.Source, walk *b3.Walk, charge int64) error {
	b := in.out.builder
	header := respond(req.corr, 0, 0, nil).Header
	for item, ok := walk.Next(); ok; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := in.out.reserve(ctx, charge); err != nil {
			return err
		}
		b.Reset(header)
		if charge == largeCharge {
			b.Next(b.Room()) // take the large buffer at once, not by way of the small one
		}
		var bad error
		sent := 0
		for ok && item.Len <= b.Room() {
			if _, bad = walk.Fill(src, b.Next(item.Len)); bad != nil {
				break
			}
			b.Commit(item.Len)
			sent++
			item, ok = walk.Next()
		}
		if sent > 0 {
			if err := in.out.frames.WriteBuilder(b); err != nil {
				return err
			}
			in.srv.metrics.bytesOut.Add(float64(len(b.Payload())))
		}
		if bad != nil {
			return bad
		}
		if charge == largeCharge {
			// Streams of one peer take turns, frame by frame.
			if err := in.out.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// respond is a response frame.
func respond(corr uint64, flags oap.Flags, code uint16, payload []byte) oap.Frame {
	return oap.Frame{
		Header:  oap.Header{Flags: oap.FlagResp | flags, Code: code, Proto: oap.ProtoObject, CorrID: corr},
		Payload: payload,
	}
}
