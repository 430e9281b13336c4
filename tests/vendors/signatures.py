"""What a vendor signs its reasoning with, so that another's is told apart."""

import base64


def of(vendor):
    return base64.b64encode(f"signed by {vendor}, to be handed back as it is".encode()).decode()
