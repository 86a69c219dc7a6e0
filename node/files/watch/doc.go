// Package watch tells when a file or directory has changed, and runs one piece of work after
// another for the changes.
//
// Invariants:
//
//   - At most one piece of work runs at a time.
//   - A change that happens after work began is followed by more work, whatever the kernel reported.
//   - Work begins when changes have paused for [Timing.Quiet], or go on for [Timing.Latest]; and not
//     before [Timing.Gap] has passed since the last work that succeeded, or work was postponed to.
//
// One change: an editor saves a file. The kernel reports several events, and each postpones the
// work a little. Then [Run] has new directories watched, and calls work, which reads the tree as it
// is then. So it does not matter which events there were, or that the kernel lost some. If the
// kernel can watch no more directories, Run looks at the tree from time to time instead.
package watch
