//go:build race

package life

// race says that the race detector watches, which takes ten times as long.
const race = true
