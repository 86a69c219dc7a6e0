// Package model checks the swap of the configuration with a Promela model. spin explores every state of it. The
// package has only tests.
//
// reload.pml models reloads that succeed and fail, the guard that takes one back, readers of the configuration, and
// the shutdown of the node. It names the Go functions that its processes stand for. Each guard names the property
// that fails without it: TestModels removes the guards one by one.
//
// # Properties
//
//   - A reader sees the keys of one configuration, and what the services were told last is what is in force.
//   - A reload that fails changes nothing.
//   - The way back leads to the configuration from before the reload that is in force, once, and over no other
//     reload.
//   - Once the node drains, the gates that shut take nothing back, and no reload begins.
//   - Run returns, and then no reload is under way.
//
// # Invariants
//
// The model allows everything that the code can do. Gates open and shut at any time. It omits the tasks that read
// files, deadlines, and the time of the guard, which may end at any moment. The race detector checks the memory model.
//
// # One check
//
// See package allium/internal/testkit/promela. To see the path to a failure:
//
//	spin -DRELOADS=2 -a reload.pml && gcc -o pan pan.c && ./pan -a -N told
//	spin -DRELOADS=2 -t -p -g reload.pml
package model
