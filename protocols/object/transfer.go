package object

import (
	"context"
	"slices"

	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// object answers one object of a get but for its status, which is what it
// returns (or a *streamError).
func (in *served) object(ctx context.Context, req *request, root b3.Root) error {
	obj, err := in.srv.deps.Store.OpenObject(ctx, root)
	if err != nil {
		return err
	}
	defer func() {
		if err := obj.Close(); err != nil {
			in.srv.log.Warn("object: cannot close", "obj", root, "err", err)
		}
	}()
	reader, size := obj.Reader(), obj.Size()
	if size > MaxObject {
		return status.Errorf(status.Internal, "object: %s has %d bytes, more than the protocol can say", root, size)
	}
	walk, err := reader.Walk(req.ranges)
	if err != nil {
		return err
	}
	if err := covered(obj, req, root); err != nil {
		return err
	}
	if err := in.out.reserve(ctx); err != nil {
		return err
	}
	in.scratch = appendStart(in.scratch[:0], root, size)
	if err := in.out.frame(respond(req.corr, oap.FlagStart, 0, in.scratch)); err != nil {
		return err
	}
	if req.sizeProof {
		proof, err := reader.SizeProof()
		if err != nil {
			return err
		}
		if err := in.items(ctx, req, reader, proof); err != nil {
			return failed(obj, err)
		}
	}
	return failed(obj, in.items(ctx, req, reader, walk))
}

// failed tells obj of an error of a transfer, unless it is the stream's.
func failed(obj Object, err error) error {
	if err == nil || isStreamError(err) {
		return err
	}
	return obj.Failed(err)
}

// covered returns not_found when what is asked for is not all here.
func covered(obj Object, req *request, root b3.Root) error {
	size := obj.Size()
	ranges := req.ranges
	if len(ranges) == 0 {
		ranges = []b3.Range{{Start: 0, End: size}}
	}
	if req.sizeProof && size > 0 {
		ranges = append(slices.Clip(ranges), b3.Range{Start: size - 1, End: size})
	}
	for _, r := range ranges {
		end := r.End
		if end < 0 || end > size {
			end = size
		}
		if r.Start < end && !obj.Covers(r.Start, end) {
			return status.Errorf(status.NotFound, "object: only a part of %s is here, without all of its bytes %d to %d", root, r.Start, end)
		}
	}
	return nil
}

// items sends the walk's items in as few frames as they fit. Bytes are read
// into the frame and count as part of it only once they are verified: nothing
// unverified leaves. The frame before a bad item still goes out, for what is in
// it is good.
func (in *served) items(ctx context.Context, req *request, from *b3.Reader, walk *b3.Walk) error {
	out := in.out
	header := respond(req.corr, 0, 0, nil).Header
	item, ok := walk.Next()
	for frames := 1; ok; frames++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if frames%framesPerTurn == 0 {
			if err := out.flush(); err != nil {
				return err
			}
		}
		if err := out.reserve(ctx); err != nil {
			return err
		}
		b := out.builder
		b.Reset(header)
		var bad error
		taken := 0
		for ok && item.Len <= b.Room() {
			if _, bad = from.Fill(walk, b.Next(item.Len)); bad != nil {
				break
			}
			b.Commit(item.Len)
			taken++
			item, ok = walk.Next()
		}
		if taken > 0 {
			if err := in.srv.pace(ctx, out, len(b.Payload())); err != nil {
				return err
			}
			if err := out.frames.WriteBuilder(b); err != nil {
				return err
			}
			in.srv.metrics.bytesOut.Add(float64(len(b.Payload())))
		}
		if bad != nil {
			return bad
		}
	}
	return nil
}

// pace waits for the turn of n bytes of items at the serve rate. What was
// gathered is sent first, so that a peer sees progress.
func (s *Server) pace(ctx context.Context, out *output, n int) error {
	if s.rate == nil {
		return nil
	}
	if err := out.writeBatch(); err != nil {
		return err
	}
	return s.rate.Wait(ctx, n, s.cfg.PermitWait)
}

// framesPerTurn is how many frames a stream sends before it gives its buffers
// back, so that streams which wait for egress bytes get their turn.
const framesPerTurn = 64

// respond is a response frame.
func respond(corr uint64, flags oap.Flags, code uint16, payload []byte) oap.Frame {
	return oap.Frame{
		Header:  oap.Header{Flags: oap.FlagResp | flags, Code: code, Proto: oap.ProtoObject, CorrID: corr},
		Payload: payload,
	}
}
