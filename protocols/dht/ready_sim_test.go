package dht

import (
	"math"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// simHosts is the size of the larger simulations: ALLIUM_SIM_HOSTS, or few.
func simHosts(t testing.TB, few int) int {
	t.Helper()
	v := os.Getenv("ALLIUM_SIM_HOSTS")
	if v == "" {
		return few
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 2 || n > 10_000 {
		t.Fatalf("ALLIUM_SIM_HOSTS is %q: a number from 2 to 10000", v)
	}
	return n
}

// filled is the gate routing_table.
func (s *Service) filled() bool {
	have, need, known := s.Fill()
	return known && have >= need
}

// within polls until ok, in virtual time, and returns how long it took; more
// than limit ends the test.
func within(t testing.TB, limit time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) >= limit {
			t.Fatalf("after %s not yet: %s", limit, what)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return time.Since(start)
}

// TestReadyInALargeNetwork: a node that joins a network by one seed is not
// ready with its first connection, and ready within a minute, with an estimate
// of the network's size that is not far off.
func TestReadyInALargeNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("TestReadyInASmallNetwork has the same goroutines")
	}
	synctest.Test(t, func(t *testing.T) {
		n := simHosts(t, 60)
		sn, _, stop := scenario{hosts: n}.build(t, (*Service).newKad)
		defer stop()
		for range 3 {
			i := sn.add(nil)
			s, stop := sn.start(i, nil)
			defer stop()
			begun := time.Now()
			within(t, 10*time.Second, "a connection to the seed", func() bool { return s.Seeds()[0].Connected })
			if have, need, known := s.Fill(); have >= need {
				t.Errorf("with its first connection it has %d of %d (%t) and is ready", have, need, known)
			}
			within(t, time.Minute-time.Since(begun), "a filled table", s.filled)
			took := time.Since(begun)
			have, need, _ := s.Fill()
			size := s.refresher.networkSize.Load()
			t.Logf(
				"%d hosts: ready after %s with %d of %d, %d in the table; the network seems %d, connections %d",
				n,
				took,
				have,
				need,
				s.TableSize(),
				size,
				len(sn.Hosts[i].Network().Peers()),
			)
			if math.Abs(float64(size)-float64(n)) > float64(n)/2 {
				t.Errorf("the network of %d hosts seems to have %d", n, size)
			}
			time.Sleep(time.Minute - took)
			if have, need, known := s.Fill(); !known || have < need {
				t.Errorf("a minute later it has %d of %d (%t)", have, need, known)
			}
		}
	})
}

// TestReadyInASmallNetwork: three nodes, of which one is the seed of the
// others, are ready when they know each other.
func TestReadyInASmallNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sn := newSimNet(t, 3)
		defer sn.close()
		begun := time.Now()
		services, stop := sn.startAll(nil)
		defer stop()
		for i, s := range services {
			within(t, 30*time.Second-time.Since(begun), "both others in the table", func() bool {
				have, need, known := s.Fill()
				return known && have == 2 && need == 2
			})
			t.Logf("host %d: ready at %s", i, time.Since(begun))
		}
	})
}
