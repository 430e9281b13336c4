// What the pages use of preact's hooks.
export function useState<T>(first: T | (() => T)): [T, (next: T | ((before: T) => T)) => void];
export function useEffect(effect: () => void | (() => void), on: readonly unknown[]): void;
export function useLayoutEffect(effect: () => void | (() => void), on: readonly unknown[]): void;
export function useRef<T>(first: T): { current: T };
export function useMemo<T>(make: () => T, on: readonly unknown[]): T;
export function useCallback<T>(call: T, on: readonly unknown[]): T;
export function useErrorBoundary(): [unknown, () => void];
