package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
)

// The operations of a history, each on one object.
type (
	linearOp struct {
		kind   string // put, get, stat, has, delete
		object int
	}
	// linearOut is the outcome of an operation: ok or not_found. A delete also returns
	// conflict when the object is in use.
	linearOut status.Outcome
)

// linearModel models each object on its own: its state is whether the store has it.
var linearModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byObject := map[int][]porcupine.Operation{}
		for _, op := range history {
			object := op.Input.(linearOp).object
			byObject[object] = append(byObject[object], op)
		}
		parts := make([][]porcupine.Operation, 0, len(byObject))
		for _, part := range byObject {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return false },
	Step: func(state, input, output any) (bool, any) {
		there := state.(bool)
		out := status.Outcome(output.(linearOut))
		switch input.(linearOp).kind {
		case "put":
			return out == status.OK, true
		case "delete":
			switch out {
			case status.Conflict: // in use: nothing happened
				return true, there
			case status.OK:
				return there, false
			}
			return out == status.NotFound && !there, false
		}
		if there {
			return out == status.OK, true
		}
		return out == status.NotFound, false
	},
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%v → %s", input, status.Outcome(output.(linearOut)))
	},
}

// testLinearizable runs puts, reads and deletes of a few objects from several goroutines at
// once. Some order of all operations must explain their outcomes, with each operation taking
// effect between its call and its return.
func testLinearizable(t *testing.T, s *store.Store) {
	const clients = 6
	steps := 60
	if testing.Short() {
		steps = 15
	}
	sizes := []int{1, 4096, b3.GroupSize, b3.GroupSize + 1, 3 * b3.GroupSize}
	contents := make([][]byte, len(sizes))
	for i, size := range sizes {
		contents[i] = Bytes(uint64(1000+i), size)
	}
	var mu sync.Mutex // lock: leaf
	var history []porcupine.Operation
	var wg sync.WaitGroup
	begun := time.Now()
	for client := range clients {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(client)))
			for range steps {
				op := linearOp{kind: []string{"put", "put", "get", "stat", "has", "delete", "delete"}[random.IntN(7)],
					object: random.IntN(len(contents))}
				call := time.Since(begun)
				out := linearDo(t, s, op.kind, contents[op.object])
				end := time.Since(begun)
				mu.Lock()
				history = append(history, porcupine.Operation{
					ClientId: client, Input: op, Output: linearOut(out), Call: int64(call), Return: int64(end),
				})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	switch result, info := porcupine.CheckOperationsVerbose(linearModel, history, time.Minute); result {
	case porcupine.Unknown:
		t.Fatal("the history was not checked within a minute")
	case porcupine.Illegal:
		for _, op := range history {
			t.Logf("client %d [%d, %d] %s", op.ClientId, op.Call, op.Return,
				linearModel.DescribeOperation(op.Input, op.Output))
		}
		t.Fatalf("no order of the operations explains their answers; the longest explained prefixes: %v",
			info.PartialLinearizations())
	}
}

// linearDo runs one operation on the object p and returns its outcome.
func linearDo(t *testing.T, s *store.Store, kind string, p []byte) status.Outcome {
	root := b3.Sum(p)
	switch kind {
	case "put":
		_, err := s.PutBytes(t.Context(), p, store.PutOptions{})
		return status.Of(err)
	case "delete":
		return status.Of(s.Delete(t.Context(), root))
	case "stat":
		_, err := s.Stat(t.Context(), root)
		return status.Of(err)
	case "has":
		there, err := s.Has(t.Context(), []b3.Root{root})
		switch {
		case err != nil:
			return status.Of(err)
		case there[0] == b3.Complete:
			return status.OK
		}
		return status.NotFound
	}
	got, err := Get(t, s, root)
	if err == nil && b3.Sum(got) != root {
		t.Errorf("%s was answered with other bytes", root)
	}
	return status.Of(err)
}
