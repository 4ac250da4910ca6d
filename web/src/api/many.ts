// Task arrays, and bookings of nodes.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { ask, type Schemas } from "./client";

export type TaskArray = Schemas["TaskArray"];
export type Booking = Schemas["Booking"];

async function read<T>(path: string, init?: RequestInit): Promise<T> {
  const response = await ask(`/api/v1/${path}`, init);
  const body: { data: T } = await response.json();
  return body.data;
}

const all = async <T>(path: string) => (await read<{ items: T[] | null }>(path)).items ?? [];

export const manyKeys = { arrays: ["arrays"] as const, bookings: ["bookings"] as const };

export function useArrays() {
  return useQuery({
    queryKey: manyKeys.arrays,
    refetchInterval: 5000,
    queryFn: () => all<TaskArray>("task-arrays?sort=-createdAt&limit=50"),
  });
}

/** Ends all tasks of an array; one that has ended is taken off the list. */
export function useEndArray() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ id, over }: { id: string; over: boolean }) =>
      read<TaskArray>(`task-arrays/${encodeURIComponent(id)}${over ? "" : "/stop"}`, {
        method: over ? "DELETE" : "POST",
      }),
    onSuccess: () => client.invalidateQueries({ queryKey: manyKeys.arrays }),
  });
}

export function useBookings() {
  return useQuery({
    queryKey: manyKeys.bookings,
    refetchInterval: 30_000,
    queryFn: () => all<Booking>("bookings?limit=200"),
  });
}

const json = { "Content-Type": "application/json" };

export function useBook() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (booking: object) =>
      read<Booking>("bookings", { method: "POST", headers: json, body: JSON.stringify(booking) }),
    onSuccess: () => client.invalidateQueries({ queryKey: manyKeys.bookings }),
  });
}

export function useUnbook() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => read<Booking>(`bookings/${encodeURIComponent(id)}`, { method: "DELETE" }),
    onSuccess: () => client.invalidateQueries({ queryKey: manyKeys.bookings }),
  });
}
