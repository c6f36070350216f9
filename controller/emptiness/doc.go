// Package emptiness gives back nodes that run nothing, in the order taint, look
// again, delete: only after the scheduler can no longer bind to a node is it
// certain that it is empty.
//
// It refuses to decide (see empty.Empty) and to keep state: which nodes wait for
// their second look is written on the nodes, so a restart goes on where it stopped
// or takes the taint off. The zero Controller is not usable; all fields but Every
// are required.
package emptiness
