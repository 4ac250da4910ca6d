// Package card has the words for the health of devices: what is read of them, what is wrong with them, and what operators order.
//
// Place: vocabulary, below api/v1, whose Node holds them. Promise: data only; internal/health judges by it. Enemies: two names
// for one state.
package card
