package b3

import "runtime"

// turns has a place for each core: so many groups are hashed at a time, and the
// others wait in order (SPEC §2). Hundreds of readers that could all run at once
// would each keep the cores for as long as the scheduler lets them, and a small
// request behind them would wait for all.
//
// A turn is taken for one group, some 20 µs, and nothing is waited for within it.
var turns = make(chan struct{}, runtime.GOMAXPROCS(0)) // bound: the cores

// groupCVInTurn is groupCV when there is a core for it.
func groupCVInTurn(p []byte, index int64, root bool) [Size]byte {
	turns <- struct{}{}
	cv := groupCV(p, index, root)
	<-turns
	return cv
}
