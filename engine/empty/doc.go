// Package empty decides which nodes can go because they run nothing that would need
// another home.
//
// It is pure like all of engine: what it knows is in its arguments, and every node
// it leaves alone gets a reason. It refuses to act and to look at budgets' clocks:
// how many nodes a pool may lose now comes in as a number.
package empty
