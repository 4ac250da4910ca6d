// Package book plans those who can wait, together: who starts when and where, so that all of them
// come to the least money or carbon, and each starts in time.
//
// Place: layer 2, under sched; it knows times, amounts of room and rates, nothing of gangs or nodes.
//
// Promise: nobody is booked beyond the room of a place as long as another start in time has room;
// the same input gives the same plan; the work is bounded, whatever waits.
//
// Enemies: two who both want the night, where one has room; a plan that is thrown over by every
// arrival.
//
// The simple story: one who waits alone takes the start that costs least. Several are booked one
// after the other, each at the best start that those before it leave; in which order is what the plan
// is about. With few, all orders are looked at, those left out that can't beat the best so far; with
// more, an order that begins with who has most to lose is bettered step by step while the budget
// lasts.
package book
