import { Anchor, type AnchorProps, Button, type ButtonProps, NavLink, type NavLinkProps } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import { type AnchorHTMLAttributes, forwardRef } from "react";

type A<P> = P & Omit<AnchorHTMLAttributes<HTMLAnchorElement>, keyof P>;

/** The library's looks with the router's typed addresses. */
export const AnchorLink = createLink(
  forwardRef<HTMLAnchorElement, A<AnchorProps>>((props, ref) => <Anchor ref={ref} {...props} />),
);

export const ButtonLink = createLink(
  forwardRef<HTMLAnchorElement, A<ButtonProps>>((props, ref) => <Button ref={ref} component="a" {...props} />),
);

export const NavTo = createLink(
  forwardRef<HTMLAnchorElement, A<NavLinkProps>>((props, ref) => <NavLink ref={ref} component="a" {...props} />),
);
