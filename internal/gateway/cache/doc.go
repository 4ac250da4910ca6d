// Package cache keeps answers that are given again for the same question.
//
// Place: layer 4, part of the gateway: one for each service that asks for it. Promise: bounded in bytes, the least used goes
// first; nothing is given after its time. Enemies: an answer that was only for one caller (the caller of Put judges), many large answers.
package cache
