"""What of colours is computed in more than one test."""


def contrast(one, other):
    """Return the contrast ratio of two colours, as WCAG 2 defines it."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    """Return the relative luminance of ``#rrggbb``."""
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
        for part in (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
