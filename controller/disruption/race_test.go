//go:build race

package disruption_test

// race says that the race detector watches, which takes ten times as long.
const race = true
